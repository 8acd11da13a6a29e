// C[M,N] = A[M,K] * B[K,N]: int8 in, int32 out, on the tensor cores through wmma. Any M, N and K
// with fewer than 2**31 elements a matrix.
// Block tile 64x64x32, four warps of 32x32 each.
// ---- tilepipe helpers ----
#ifndef TILEPIPE_COPY_WIDE_OR_ZERO
#define TILEPIPE_COPY_WIDE_OR_ZERO
// Copies `Bytes` bytes (several elements) to shared memory asynchronously where `in` holds, else fills them with zero
// and reads nothing; both addresses are multiples of `Bytes`.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide_or_zero(void* to, const void* from, bool in)
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int skip = !in;
    if constexpr (Bytes == 16)
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, skip; }"
                     :
                     : "r"(at), "l"(from), "r"(skip)
                     : "memory");
    else
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %3, 0; cp.async.ca.shared.global [%0], [%1], %2, skip; }"
                     :
                     : "r"(at), "l"(from), "n"(Bytes), "r"(skip)
                     : "memory");
}
#endif
#ifndef TILEPIPE_ALIGNED
#define TILEPIPE_ALIGNED
// Whether a pointer is a multiple of `bytes`.
__device__ __forceinline__ bool tp_aligned(const void* p, unsigned bytes)
{
    return reinterpret_cast<unsigned long long>(p) % bytes == 0;
}
#endif
#ifndef TILEPIPE_GROUPS
#define TILEPIPE_GROUPS
// Ends a group of copies. Groups are counted by each thread for itself; an empty group counts too.
__device__ __forceinline__ void tp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the N newest groups of this thread are in flight.
template <int N>
__device__ __forceinline__ void tp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#endif

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
    __shared__ __align__(32) int8_t smem_a_ring[TP_STAGES][BM * BK + 1024];
    __shared__ __align__(32) int8_t smem_b_ring[TP_STAGES][BK * BN + 512];
    __shared__ __align__(32) int32_t edge[THREADS / 32][FRAG * FRAG];

    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int warp_m = warp / 2 * WARP, warp_n = warp % 2 * WARP;
    const int block_m = blockIdx.y * BM, block_n = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    // Wide copies need whole groups of elements at aligned addresses; the author's loop does the rest.
    const bool tp_wide = blockDim.x == 128 && blockDim.y * blockDim.z == 1
                         && K % 16 == 0
                         && tp_aligned(A, 16)
                         && N % 16 == 0
                         && tp_aligned(B, 16);
    if (tp_wide) {
        int k0_next = 0;
        auto tp_load = [&](int tp_stage) {
            auto& smem_a = smem_a_ring[tp_stage];
            auto& smem_b = smem_b_ring[tp_stage];
            auto& k0 = k0_next;
            #pragma unroll
            for (int s = 0; s < 1; ++s) {
                const int i = (tid + s * THREADS) * 16;
                const int row = block_m + i / BK, col = k0 + i % BK;
                tp_copy_wide_or_zero<16>(&smem_a[i + i / BK * 16], &A[row * K + col], row < M && col < K);
            }
            #pragma unroll
            for (int s = 0; s < 1; ++s) {
                const int i = (tid + s * THREADS) * 16;
                const int row = k0 + i / BN, col = block_n + i % BN;
                tp_copy_wide_or_zero<16>(&smem_b[i + i / BN * 16], &B[row * N + col], row < K && col < N);
            }
            k0_next += BK;
        };
        // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
        for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
            if (k0_next < K)
                tp_load(tp_s);
            tp_commit();
        }
        // main loop
        int tp_stage = 0;
        for (int k0 = 0; k0 < K; k0 += BK) {
            tp_wait<TP_STAGES - 2>();
            __syncthreads();  // publishes this stage and frees the one consumed last
            if (k0_next < K)
                tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
            tp_commit();
            auto& smem_a = smem_a_ring[tp_stage];
            auto& smem_b = smem_b_ring[tp_stage];

            for (int kk = 0; kk < BK; kk += FRAG) {
                wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, signed char, wmma::row_major> a[2];
                wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, signed char, wmma::row_major> b[2];
                for (int i = 0; i < 2; ++i)
                    wmma::load_matrix_sync(a[i], &smem_a[(warp_m + i * FRAG) * (BK + 16) + kk], BK + 16);
                for (int j = 0; j < 2; ++j)
                    wmma::load_matrix_sync(b[j], &smem_b[kk * (BN + 16) + warp_n + j * FRAG], BN + 16);
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < 2; ++j)
                        wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
            }

            tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
        }
        // epilogue: nothing in flight when shared memory is reused or the kernel returns
        tp_wait<0>();
        __syncthreads();
    } else {
        auto& smem_a = smem_a_ring[0];
        auto& smem_b = smem_b_ring[0];
        for (int k0 = 0; k0 < K; k0 += BK) {
            #pragma unroll 8
            for (int s = 0; s < BM * BK / THREADS; ++s) {
                const int i = tid + s * THREADS;
                const int row = block_m + i / BK, col = k0 + i % BK;
                smem_a[i + i / BK * 16] = (row < M && col < K) ? A[row * K + col] : 0;
            }
            #pragma unroll 8
            for (int s = 0; s < BK * BN / THREADS; ++s) {
                const int i = tid + s * THREADS;
                const int row = k0 + i / BN, col = block_n + i % BN;
                smem_b[i + i / BN * 16] = (row < K && col < N) ? B[row * N + col] : 0;
            }
            __syncthreads();

            for (int kk = 0; kk < BK; kk += FRAG) {
                wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, signed char, wmma::row_major> a[2];
                wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, signed char, wmma::row_major> b[2];
                for (int i = 0; i < 2; ++i)
                    wmma::load_matrix_sync(a[i], &smem_a[(warp_m + i * FRAG) * (BK + 16) + kk], BK + 16);
                for (int j = 0; j < 2; ++j)
                    wmma::load_matrix_sync(b[j], &smem_b[kk * (BN + 16) + warp_n + j * FRAG], BN + 16);
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < 2; ++j)
                        wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
            }
            __syncthreads();
        }
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
