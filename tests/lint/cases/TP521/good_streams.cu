#include <cuda_pipeline.h>
#define STAGES 2
#define TILE 32
#define ROWS 4

// Warps stream rows of C to one pool, each to its own part: as ranges over the threads the rows of different warps
// meet, but no row takes another's place.
__global__ void __launch_bounds__(256)
rowsum(const float* __restrict__ A, const float* __restrict__ B, const float* __restrict__ D, float* C, int K)
{
    __shared__ float pool[8 * ROWS * TILE];
    __shared__ float As[STAGES][8][TILE];
    __shared__ float Bs[STAGES][8][TILE];
    const int ty = threadIdx.x / TILE, tx = threadIdx.x % TILE;
    const int tiles = K / TILE;
    float* mine = pool + ty * ROWS * TILE;
    for (int i = 0; i < ROWS; ++i) {
        __pipeline_memcpy_async(&mine[i * TILE + tx], &D[(ty * ROWS + i) * TILE + tx], 4);
        __pipeline_commit();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    float acc = 0.f;
    for (int i = 0; i < ROWS; ++i)
        acc += mine[i * TILE + (tx + 1) % TILE];

    if (0 < tiles) {
        __pipeline_memcpy_async(&As[0][ty][tx], &A[ty * K + tx], 4);
        __pipeline_memcpy_async(&Bs[0][ty][tx], &B[ty * K + tx], 4);
    }
    __pipeline_commit();
    for (int t = 0; t < tiles; ++t) {
        __pipeline_wait_prior(0);
        __syncthreads();
        const int next = t + 1;
        if (next < tiles) {
            __pipeline_memcpy_async(&As[next % STAGES][ty][tx], &A[ty * K + next * TILE + tx], 4);
            __pipeline_memcpy_async(&Bs[next % STAGES][ty][tx], &B[ty * K + next * TILE + tx], 4);
        }
        __pipeline_commit();
        for (int k = 0; k < TILE; ++k)
            acc += As[t % STAGES][ty][k] * Bs[t % STAGES][tx % 8][k];
    }
    __pipeline_wait_prior(0);
    C[threadIdx.x] = acc;
}
