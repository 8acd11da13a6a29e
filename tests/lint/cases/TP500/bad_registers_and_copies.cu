// The loader forgets the commit; it comes after the wait and the barrier.
#include <cuda_pipeline.h>
#define KT 16
__global__ void __launch_bounds__(256) edges(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float As[2][16][KT];
    __shared__ float Bs[2][KT][16];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    auto load = [&](int s, int k0) {
        const bool in_a = k0 + tx < K, in_b = k0 + ty < K;
        __pipeline_memcpy_async(&As[s][ty][tx], in_a ? &A[row * K + k0 + tx] : A, 4, in_a ? 0 : 4);
        __pipeline_memcpy_async(&Bs[s][ty][tx], in_b ? &B[(k0 + ty) * N + col] : B, 4, in_b ? 0 : 4);
    };
    float acc = 0.f;
    load(0, 0);
    int s = 0;
    for (int k0 = 0; k0 < K; k0 += KT, s ^= 1) {
        __pipeline_wait_prior(0);
        __syncthreads();
        __pipeline_commit();
        if (k0 + KT < K)
            load(s ^ 1, k0 + KT);
        for (int k = 0; k < KT; ++k)
            acc += As[s][ty][k] * Bs[s][k][tx];
    }
    C[row * N + col] = acc;
}
