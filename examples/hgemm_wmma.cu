// C[M,N] = A[M,K] * B[K,N]: fp16 in, fp32 out, on the tensor cores through wmma.
// Block tile 128x128x32, eight warps of 64x32 each. M and N must be multiples of 128, K of 32, and the
// pointers 16-byte aligned.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BM = 128, BN = 128, BK = 32;
constexpr int THREADS = 256;
constexpr int PAD = 8;                                 // half: shifts each row by 16 bytes, against bank conflicts
constexpr int FRAG = 16;                               // wmma 16x16x16
constexpr int WM = 64, WN = 32;                        // rows and columns of C per warp
constexpr int VEC = 8;                                 // half per 16-byte copy

__global__ void __launch_bounds__(THREADS)
hgemm_wmma(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C,
           int M, int N, int K)
{
    __shared__ __align__(32) half As[BM][BK + PAD];
    __shared__ __align__(32) half Bs[BK][BN + PAD];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    const int block_m = blockIdx.y * BM, block_n = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float> acc[WM / FRAG][WN / FRAG];
    #pragma unroll
    for (int i = 0; i < WM / FRAG; ++i)
        #pragma unroll
        for (int j = 0; j < WN / FRAG; ++j)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll
        for (int s = 0; s < BM * BK / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BK / VEC), col = i % (BK / VEC) * VEC;
            *reinterpret_cast<uint4*>(&As[row][col]) =
                *reinterpret_cast<const uint4*>(&A[(size_t)(block_m + row) * K + k0 + col]);
        }
        #pragma unroll
        for (int s = 0; s < BK * BN / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BN / VEC), col = i % (BN / VEC) * VEC;
            *reinterpret_cast<uint4*>(&Bs[row][col]) =
                *reinterpret_cast<const uint4*>(&B[(size_t)(k0 + row) * N + block_n + col]);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < BK; kk += FRAG) {
            wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, half, wmma::row_major> a[WM / FRAG];
            wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, half, wmma::row_major> b[WN / FRAG];
            #pragma unroll
            for (int i = 0; i < WM / FRAG; ++i)
                wmma::load_matrix_sync(a[i], &As[warp_m + i * FRAG][kk], BK + PAD);
            #pragma unroll
            for (int j = 0; j < WN / FRAG; ++j)
                wmma::load_matrix_sync(b[j], &Bs[kk][warp_n + j * FRAG], BN + PAD);
            #pragma unroll
            for (int i = 0; i < WM / FRAG; ++i)
                #pragma unroll
                for (int j = 0; j < WN / FRAG; ++j)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < WM / FRAG; ++i)
        #pragma unroll
        for (int j = 0; j < WN / FRAG; ++j)
            wmma::store_matrix_sync(&C[(size_t)(block_m + warp_m + i * FRAG) * N + block_n + warp_n + j * FRAG],
                                    acc[i][j], N, wmma::mem_row_major);
}

cudaError_t hgemm(const half* A, const half* B, float* C, int M, int N, int K, cudaStream_t stream)
{
    if (M % BM || N % BN || K % BK)
        return cudaErrorInvalidValue;
    hgemm_wmma<<<dim3(N / BN, M / BM), THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
