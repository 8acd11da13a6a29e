// C[M,N] = A[M,K] * B[K,N]: int8 in, int32 out, on the tensor cores through wmma. Any M, N and K
// with fewer than 2**31 elements a matrix.
// Block tile 64x64x32, four warps of 32x32 each.
#include <cstdint>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int THREADS = 128;
constexpr int FRAG = 16;                               // wmma 16x16x16
constexpr int WARP = 32;                               // rows and columns of C per warp

__global__ void __launch_bounds__(THREADS)
igemm_wmma(const int8_t* __restrict__ A, const int8_t* __restrict__ B, int32_t* __restrict__ C,
           int M, int N, int K)
{
    __shared__ __align__(32) int8_t smem_a[BM * BK];
    __shared__ __align__(32) int8_t smem_b[BK * BN];
    __shared__ __align__(32) int32_t edge[THREADS / 32][FRAG * FRAG];

    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int warp_m = warp / 2 * WARP, warp_n = warp % 2 * WARP;
    const int block_m = blockIdx.y * BM, block_n = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll 8
        for (int s = 0; s < BM * BK / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = block_m + i / BK, col = k0 + i % BK;
            smem_a[i] = (row < M && col < K) ? A[row * K + col] : 0;
        }
        #pragma unroll 8
        for (int s = 0; s < BK * BN / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = k0 + i / BN, col = block_n + i % BN;
            smem_b[i] = (row < K && col < N) ? B[row * N + col] : 0;
        }
        __syncthreads();

        for (int kk = 0; kk < BK; kk += FRAG) {
            wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, signed char, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, signed char, wmma::row_major> b[2];
            for (int i = 0; i < 2; ++i)
                wmma::load_matrix_sync(a[i], &smem_a[(warp_m + i * FRAG) * BK + kk], BK);
            for (int j = 0; j < 2; ++j)
                wmma::load_matrix_sync(b[j], &smem_b[kk * BN + warp_n + j * FRAG], BN);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < 2; ++i)
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int m = block_m + warp_m + i * FRAG, n = block_n + warp_n + j * FRAG;
            if (m + FRAG <= M && n + FRAG <= N && N % 8 == 0) {     // whole, and every row 32-byte aligned
                wmma::store_matrix_sync(&C[(size_t)m * N + n], acc[i][j], N, wmma::mem_row_major);
            } else {
                wmma::store_matrix_sync(edge[warp], acc[i][j], FRAG, wmma::mem_row_major);
                __syncwarp();
                for (int e = lane; e < FRAG * FRAG; e += 32)
                    if (m + e / FRAG < M && n + e % FRAG < N)
                        C[(size_t)(m + e / FRAG) * N + n + e % FRAG] = edge[warp][e];
                __syncwarp();
            }
        }
}

cudaError_t igemm(const int8_t* A, const int8_t* B, int32_t* C, int M, int N, int K, cudaStream_t stream)
{
    const dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
    igemm_wmma<<<grid, THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
