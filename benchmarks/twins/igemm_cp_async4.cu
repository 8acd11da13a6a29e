// The int8 example pipelined by hand in the classic way: cp.async of 4 bytes, two buffers, wait for everything. Written
// for comparison; A and B 4-byte aligned, K and N multiples of 4.
#include <cstdint>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int THREADS = 128;
constexpr int FRAG = 16;
constexpr int WARP = 32;

__device__ __forceinline__ void load_tile(int8_t* a, int8_t* b, const int8_t* A, const int8_t* B, int M, int N, int K,
                                          int block_m, int block_n, int k0)
{
    #pragma unroll
    for (int s = 0; s < BM * BK / 4 / THREADS; ++s) {
        const int i = (threadIdx.x + s * THREADS) * 4;
        const int row = block_m + i / BK, col = k0 + i % BK;
        const bool in = row < M && col < K;
        __pipeline_memcpy_async(&a[i], in ? &A[row * K + col] : A, 4, in ? 0 : 4);
    }
    #pragma unroll
    for (int s = 0; s < BK * BN / 4 / THREADS; ++s) {
        const int i = (threadIdx.x + s * THREADS) * 4;
        const int row = k0 + i / BN, col = block_n + i % BN;
        const bool in = row < K && col < N;
        __pipeline_memcpy_async(&b[i], in ? &B[row * N + col] : B, 4, in ? 0 : 4);
    }
}

__global__ void __launch_bounds__(THREADS)
igemm_wmma(const int8_t* __restrict__ A, const int8_t* __restrict__ B, int32_t* __restrict__ C,
           int M, int N, int K)
{
    __shared__ __align__(32) int8_t smem_a[2][BM * BK];
    __shared__ __align__(32) int8_t smem_b[2][BK * BN];

    const int warp = threadIdx.x / 32;
    const int warp_m = warp / 2 * WARP, warp_n = warp % 2 * WARP;
    const int block_m = blockIdx.y * BM, block_n = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    const int tiles = (K + BK - 1) / BK;
    if (tiles > 0)
        load_tile(smem_a[0], smem_b[0], A, B, M, N, K, block_m, block_n, 0);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles)
            load_tile(smem_a[(t + 1) & 1], smem_b[(t + 1) & 1], A, B, M, N, K, block_m, block_n, (t + 1) * BK);
        __pipeline_commit();
        for (int kk = 0; kk < BK; kk += FRAG) {
            wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, signed char, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, signed char, wmma::row_major> b[2];
            for (int i = 0; i < 2; ++i)
                wmma::load_matrix_sync(a[i], &smem_a[t & 1][(warp_m + i * FRAG) * BK + kk], BK);
            for (int j = 0; j < 2; ++j)
                wmma::load_matrix_sync(b[j], &smem_b[t & 1][kk * BN + warp_n + j * FRAG], BN);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __pipeline_wait_prior(0);
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const int m = block_m + warp_m + i * FRAG, n = block_n + warp_n + j * FRAG;
            if (m + FRAG <= M && n + FRAG <= N)
                wmma::store_matrix_sync(&C[(size_t)m * N + n], acc[i][j], N, wmma::mem_row_major);
        }
}
