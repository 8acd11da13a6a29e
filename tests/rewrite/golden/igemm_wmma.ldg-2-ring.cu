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
    constexpr int TP_STAGES = 2;
    __shared__ __align__(32) int8_t smem_a_ring[TP_STAGES][BM * BK];
    __shared__ __align__(32) int8_t smem_b_ring[TP_STAGES][BK * BN];
    __shared__ __align__(32) int32_t edge[THREADS / 32][FRAG * FRAG];

    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int warp_m = warp / 2 * WARP, warp_n = warp % 2 * WARP;
    const int block_m = blockIdx.y * BM, block_n = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    int k0_next = 0;
    signed char tp_A0[16];
    signed char tp_B1[16];
    auto tp_fetch = [&]() {
        auto& k0 = k0_next;
        #pragma unroll
        for (int s = 0; s < BM * BK / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = block_m + i / BK, col = k0 + i % BK;
            tp_A0[s] = (row < M && col < K) ? A[row * K + col] : static_cast<signed char>(0);
        }
        #pragma unroll
        for (int s = 0; s < BK * BN / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = k0 + i / BN, col = block_n + i % BN;
            tp_B1[s] = (row < K && col < N) ? B[row * N + col] : static_cast<signed char>(0);
        }
    };
    auto tp_store = [&](int tp_stage) {
        auto& smem_a = smem_a_ring[tp_stage];
        auto& smem_b = smem_b_ring[tp_stage];
        #pragma unroll
        for (int s = 0; s < BM * BK / THREADS; ++s) {
            const int i = tid + s * THREADS;
            smem_a[i] = tp_A0[s];
        }
        #pragma unroll
        for (int s = 0; s < BK * BN / THREADS; ++s) {
            const int i = tid + s * THREADS;
            smem_b[i] = tp_B1[s];
        }
    };
    auto tp_advance = [&] {
        k0_next += BK;
    };
    // prologue: tile 0
    if (k0_next < K) {
        tp_fetch();
        tp_store(0);
        tp_advance();
    }
    __syncthreads();
    // main loop: each turn but the last loads the next tile while it computes
    int tp_stage = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool tp_next = k0_next < K;
        if (tp_next) {
            tp_fetch();
        }
        auto& smem_a = smem_a_ring[tp_stage];
        auto& smem_b = smem_b_ring[tp_stage];

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

        if (tp_next) {
            tp_store(tp_stage ^ 1);
            tp_advance();
        }
        __syncthreads();  // publishes the next tile and frees this one
        tp_stage ^= 1;
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
