#include <cuda_pipeline.h>
#define T 16
__global__ void __launch_bounds__(256) product(float* C, const float* A, const float* B, int wA, int wB)
{
    __shared__ float As[2][T][T];
    __shared__ float Bs[2][T][T];
    const int tx = threadIdx.x % T, ty = threadIdx.x / T;
    int a = wA * T * blockIdx.y, b = T * blockIdx.x, na = a, nb = b;
    const int end = a + wA;
    float sum = 0.f;
    __pipeline_memcpy_async(&As[0][ty][tx], &A[a + wA * ty + tx], sizeof(float));
    __pipeline_memcpy_async(&Bs[0][ty][tx], &B[b + wB * ty + tx], sizeof(float));
    __pipeline_commit();
    int s = 0;
    for (; a < end; a += T, s ^= 1) {
        __pipeline_wait_prior(0);
        __syncthreads();
        na += T;
        nb += T * wB;
        if (na < end) {
            __pipeline_memcpy_async(&As[s ^ 1][ty][tx], &A[na + wA * ty + tx], sizeof(float));
            __pipeline_memcpy_async(&Bs[s ^ 1][ty][tx], &B[nb + wB * ty + tx], sizeof(float));
        }
        __pipeline_commit();
        for (int k = 0; k < T; ++k)
            sum += As[s][ty][k] * Bs[s][k][tx];
    }
    C[(blockIdx.y * T + ty) * wB + blockIdx.x * T + tx] = sum;
}
