// Four stages.
#include <cuda_pipeline.h>
#define STAGES 4
#define TILE 32

__global__ void __launch_bounds__(256)
rowsum(const float* __restrict__ A, const float* __restrict__ B, float* C, int K)
{
    __shared__ float As[STAGES][8][TILE];
    __shared__ float Bs[STAGES][8][TILE];
    const int ty = threadIdx.x / TILE, tx = threadIdx.x % TILE;
    const int tiles = K / TILE;
    float acc = 0.f;

    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) {
            __pipeline_memcpy_async(&As[s][ty][tx], &A[ty * K + s * TILE + tx], 4);
            __pipeline_memcpy_async(&Bs[s][ty][tx], &B[ty * K + s * TILE + tx], 4);
        }
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; ++t) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        const int next = t + STAGES - 1;
        if (next < tiles) {
            __pipeline_memcpy_async(&As[next % STAGES][ty][tx], &A[ty * K + next * TILE + tx], 4);
            __pipeline_memcpy_async(&Bs[next % STAGES][ty][tx], &B[ty * K + next * TILE + tx], 4);
            __pipeline_commit();
        }
        for (int k = 0; k < TILE; ++k)
            acc += As[t % STAGES][ty][k] * Bs[t % STAGES][tx % 8][k];
    }
    __pipeline_wait_prior(0);
    C[threadIdx.x] = acc;
}
