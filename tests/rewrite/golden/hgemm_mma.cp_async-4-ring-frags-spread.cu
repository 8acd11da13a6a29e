// C[M,N] = A[M,K] * B[N,K]^T: fp16 in and out, fp32 sums, on the tensor cores through ldmatrix and mma.sync.
// Block tile 128x256x32, eight warps of 64x64 each. Any M and any even N; K must be a multiple of 8 and the
// pointers 16-byte aligned.
// ---- tilepipe helpers ----
#ifndef TILEPIPE_COPY_OR_ZERO
#define TILEPIPE_COPY_OR_ZERO
// Copies one element asynchronously where `in` holds, else fills it with zero and reads nothing.
template <class Element>
__device__ __forceinline__ void tp_copy_or_zero(Element* to, const Element* from, bool in)
{
    static_assert(sizeof(Element) == 4 || sizeof(Element) == 8 || sizeof(Element) == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int skip = !in;
    if constexpr (sizeof(Element) == 16)
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, skip; }"
                     :
                     : "r"(at), "l"(from), "r"(skip)
                     : "memory");
    else
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %3, 0; cp.async.ca.shared.global [%0], [%1], %2, skip; }"
                     :
                     : "r"(at), "l"(from), "n"(sizeof(Element)), "r"(skip)
                     : "memory");
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

constexpr int BM = 128, BN = 256, BK = 32;
constexpr int THREADS = 256;
constexpr int WM = 64, WN = 64;                        // rows and columns of C per warp
constexpr int VEC = 8;                                 // half per 16-byte chunk
constexpr int GROUP = 16;                              // rows of tiles that share their columns of B in L2

// Offset of a 16-byte chunk of a row. The chunks of neighbouring rows are permuted, so that the eight rows that
// one ldmatrix reads lie in different banks.
__device__ __forceinline__ int slot(int row, int chunk) { return row * BK + (chunk ^ (row >> 1 & 3)) * VEC; }

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const half* p)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void __launch_bounds__(THREADS)
hgemm_mma(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K)
{
    constexpr int TP_STAGES = 4;
    __shared__ __align__(128) half As_ring[TP_STAGES][BM * BK];
    __shared__ __align__(128) half Bs_ring[TP_STAGES][BN * BK];

    const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP;
    const int rows = min(GROUP, tiles_m - first);
    const int within = blockIdx.x % (GROUP * tiles_n);
    const int block_m = (first + within % rows) * BM, block_n = within / rows * BN;

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;

    float acc[WM / 16][WN / 8][4] = {};

    int k0_next = 0;
    auto tp_load = [&](int tp_stage, int tp_part) {
        auto& As = As_ring[tp_stage];
        auto& Bs = Bs_ring[tp_stage];
        auto& k0 = k0_next;
        #pragma unroll
        for (int s = 0; s < BM * BK / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BK / VEC), chunk = i % (BK / VEC);
            const bool in = block_m + row < M && k0 + chunk * VEC < K;
            if (s % 2 == tp_part)
                tp_copy_or_zero(reinterpret_cast<uint4*>(&As[slot(row, chunk)]), reinterpret_cast<const uint4*>(&A[(size_t)(block_m + row) * K + k0 + chunk * VEC]), in);
        }
        #pragma unroll
        for (int s = 0; s < BN * BK / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BK / VEC), chunk = i % (BK / VEC);
            const bool in = block_n + row < N && k0 + chunk * VEC < K;
            if ((s + 2) % 2 == tp_part)
                tp_copy_or_zero(reinterpret_cast<uint4*>(&Bs[slot(row, chunk)]), reinterpret_cast<const uint4*>(&B[(size_t)(block_n + row) * K + k0 + chunk * VEC]), in);
        }
        if (tp_part == 1) {
            k0_next += BK;
        }
    };
    // fragments: one slot is multiplied while the other one is filled
    unsigned a_slots[2][WM / 16][4], b_slots[2][WN / 16][4];
    auto tp_fragments = [&](int tp_stage, int tp_slot, int kk) {
        auto& As = As_ring[tp_stage];
        auto& Bs = Bs_ring[tp_stage];
        auto& a = a_slots[tp_slot];
        auto& b = b_slots[tp_slot];
        #pragma unroll
        for (int i = 0; i < WM / 16; ++i)
            load_matrices(a[i], &As[slot(warp_m + 16 * i + lane % 16, kk * 2 + lane / 16)]);
        #pragma unroll
        for (int j = 0; j < WN / 16; ++j)
            load_matrices(b[j], &Bs[slot(warp_n + 16 * j + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2)]);
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    int tp_depth = 0;  // stages that get a tile
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (k0_next < K) {
            #pragma unroll
            for (int tp_part = 0; tp_part < 2; ++tp_part)
                tp_load(tp_s, tp_part);
            ++tp_depth;
        }
        tp_commit();
    }
    if (k0_next < K)
        ++tp_depth;
    tp_wait<TP_STAGES - 2>();
    __syncthreads();
    if (tp_depth != 0)
        tp_fragments(0, 0, 0);
    if (k0_next < K)
        tp_load(TP_STAGES - 1, 0);
    // main loop
    int tp_stage = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll
        for (int kk = 0; kk < BK / 16; ++kk) {
            if (kk + 1 < BK / 16) {
                tp_fragments(tp_stage, (kk + 1) % 2, kk + 1);
                if (k0_next < K)
                    tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1, kk + 1);
                tp_commit();
            } else {  // the first group of the next tile
                tp_wait<TP_STAGES - 2>();
                __syncthreads();  // publishes the next stage and frees this one
                tp_stage = tp_stage + 1 == tp_depth ? 0 : tp_stage + 1;
                tp_fragments(tp_stage, 0, 0);
                if (k0_next < K)
                    tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1, 0);
            }
            auto& a = a_slots[kk % 2];
            auto& b = b_slots[kk % 2];
            #pragma unroll
            for (int i = 0; i < WM / 16; ++i)
                #pragma unroll
                for (int j = 0; j < WN / 8; ++j)
                    multiply(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

    #pragma unroll
    for (int i = 0; i < WM / 16; ++i)
        #pragma unroll
        for (int j = 0; j < WN / 8; ++j)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = block_m + warp_m + 16 * i + 8 * h + lane / 4;
                const int column = block_n + warp_n + 8 * j + lane % 4 * 2;
                if (row < M && column < N)
                    *reinterpret_cast<half2*>(&C[(size_t)row * N + column]) =
                        __floats2half2_rn(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
            }
}

cudaError_t hgemm(const half* A, const half* B, half* C, int M, int N, int K, cudaStream_t stream)
{
    if (N % 2 || K % VEC)
        return cudaErrorInvalidValue;
    const int tiles = (M + BM - 1) / BM * ((N + BN - 1) / BN);
    hgemm_mma<<<tiles, THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
