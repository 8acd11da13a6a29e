// C[M,N] = A[M,K] * B[K,N] in fp32. Block tile 128x128x8, 256 threads, 8x8 outputs per thread.
// M and N must be multiples of 128, K of 8, and the pointers 16-byte aligned.
#include <cuda_runtime.h>

constexpr int BM = 128, BN = 128, BK = 8;
constexpr int THREADS = 256;
constexpr int PAD = 4;                                 // keeps the transposing stores free of bank conflicts

// An 8x8 thread tile is four 4x4 quadrants, half a block tile apart: float4 reads of neighbouring threads
// are then contiguous in shared memory.
__global__ void __launch_bounds__(THREADS)
sgemm_tiled(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
            int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + PAD];   // transposed
    __shared__ __align__(16) float Bs[BK][BN];

    const int tid = threadIdx.x;
    const int tx = tid % 16, ty = tid / 16;
    const int a_row = tid / 2, a_col = tid % 2 * 4;
    const int b_row = tid / 32, b_col = tid % 32 * 4;

    A += (size_t)blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += (size_t)blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[8][8] = {};

    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a4 = *reinterpret_cast<const float4*>(&A[(size_t)a_row * K + k0 + a_col]);
        As[a_col + 0][a_row] = a4.x;
        As[a_col + 1][a_row] = a4.y;
        As[a_col + 2][a_row] = a4.z;
        As[a_col + 3][a_row] = a4.w;
        *reinterpret_cast<float4*>(&Bs[b_row][b_col]) =
            *reinterpret_cast<const float4*>(&B[(size_t)(k0 + b_row) * N + b_col]);
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[8], b[8];
            *reinterpret_cast<float4*>(&a[0]) = *reinterpret_cast<const float4*>(&As[k][ty * 4]);
            *reinterpret_cast<float4*>(&a[4]) = *reinterpret_cast<const float4*>(&As[k][ty * 4 + BM / 2]);
            *reinterpret_cast<float4*>(&b[0]) = *reinterpret_cast<const float4*>(&Bs[k][tx * 4]);
            *reinterpret_cast<float4*>(&b[4]) = *reinterpret_cast<const float4*>(&Bs[k][tx * 4 + BN / 2]);
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j)
                    acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = ty * 4 + i % 4 + i / 4 * (BM / 2);
        #pragma unroll
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<float4*>(&C[(size_t)row * N + tx * 4 + j / 4 * (BN / 2)]) =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
    }
}

cudaError_t sgemm(const float* A, const float* B, float* C, int M, int N, int K, cudaStream_t stream)
{
    if (M % BM || N % BN || K % BK)
        return cudaErrorInvalidValue;
    sgemm_tiled<<<dim3(N / BN, M / BM), THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
