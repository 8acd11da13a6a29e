// C[M,N] = A[M,K] * B[K,N]: fp16 in, fp32 out, on the tensor cores through wmma.
// Block tile 128x128x32, eight warps of 64x32 each. M and N must be multiples of 128, K of 32, and the
// pointers 16-byte aligned.
// ---- tilepipe helpers ----
#ifndef TILEPIPE_COPY
#define TILEPIPE_COPY
// Copies one element to shared memory asynchronously. 16 bytes bypass L1 (.cg); 4 and 8 bytes go through it (.ca).
template <class Element>
__device__ __forceinline__ void tp_copy(Element* to, const Element* from)
{
    static_assert(sizeof(Element) == 4 || sizeof(Element) == 8 || sizeof(Element) == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (sizeof(Element) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(Element)) : "memory");
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
    constexpr int TP_STAGES = 3;
    __shared__ __align__(32) half As_ring[TP_STAGES][BM][BK + PAD];
    __shared__ __align__(32) half Bs_ring[TP_STAGES][BK][BN + PAD];

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

    int k0_next = 0;
    auto tp_load = [&](int tp_stage) {
        auto& As = As_ring[tp_stage];
        auto& Bs = Bs_ring[tp_stage];
        auto& k0 = k0_next;
        #pragma unroll
        for (int s = 0; s < BM * BK / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BK / VEC), col = i % (BK / VEC) * VEC;
            tp_copy(reinterpret_cast<uint4*>(&As[row][col]), reinterpret_cast<const uint4*>(&A[(size_t)(block_m + row) * K + k0 + col]));
        }
        #pragma unroll
        for (int s = 0; s < BK * BN / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BN / VEC), col = i % (BN / VEC) * VEC;
            tp_copy(reinterpret_cast<uint4*>(&Bs[row][col]), reinterpret_cast<const uint4*>(&B[(size_t)(k0 + row) * N + block_n + col]));
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
        auto& As = As_ring[tp_stage];
        auto& Bs = Bs_ring[tp_stage];

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

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

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
