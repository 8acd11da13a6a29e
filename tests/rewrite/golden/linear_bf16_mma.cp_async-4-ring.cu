// Y = X * W^T in bf16 (X [M,K], W [N,K]) with mma.sync m16n8k16, 64x64x32 tile, four warps; M is ragged.
// Shows: inline PTX (ldmatrix, mma.sync), XOR-swizzled 16-byte chunks, small __device__ helpers,
// rows beyond M zeroed through a register by if / else.
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

#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

// element offset of 8-element chunk `q` of row `r` in a tile with 32 columns
__device__ __forceinline__ int slot(int r, int q) { return r * 32 + ((q ^ ((r >> 1) & 3)) << 3); }

__device__ __forceinline__ void ldsm_x4(unsigned (&d)[4], const bf16* p)
{
    const unsigned addr = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(addr));
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void __launch_bounds__(128)
linear_bf16_mma(const bf16* __restrict__ X, const bf16* __restrict__ W, bf16* __restrict__ Y, int M, int N, int K)
{
    constexpr int TP_STAGES = 4;
    __shared__ __align__(128) bf16 xs_ring[TP_STAGES][64 * 32];
    __shared__ __align__(128) bf16 ws_ring[TP_STAGES][64 * 32];

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;

    float acc[2][4][4] = {};

    int k0_next = 0;
    auto tp_load = [&](int tp_stage) {
        auto& xs = xs_ring[tp_stage];
        auto& ws = ws_ring[tp_stage];
        auto& k0 = k0_next;
        #pragma unroll
        for (int s = 0; s < 2; ++s) {
            const int r = (tid >> 2) + 32 * s, q = tid & 3;
            tp_copy_or_zero(reinterpret_cast<uint4*>(xs + slot(r, q)), reinterpret_cast<const uint4*>(X + (size_t)(m0 + r) * K + k0 + q * 8), m0 + r < M);
            tp_copy(reinterpret_cast<uint4*>(ws + slot(r, q)), reinterpret_cast<const uint4*>(W + (size_t)(n0 + r) * K + k0 + q * 8));
        }
        k0_next += 32;
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (k0_next < K)
            tp_load(tp_s);
        tp_commit();
    }
    // main loop
    int tp_stage = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        tp_wait<TP_STAGES - 2>();
        __syncthreads();  // publishes this stage and frees the one consumed last
        if (k0_next < K)
            tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
        tp_commit();
        auto& xs = xs_ring[tp_stage];
        auto& ws = ws_ring[tp_stage];

#pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            unsigned a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                ldsm_x4(a[i], xs + slot(wm + 16 * i + (lane & 15), kk * 2 + (lane >> 4)));
                ldsm_x4(b[i], ws + slot(wn + 16 * i + (lane & 7) + ((lane >> 4) << 3), kk * 2 + ((lane >> 3) & 1)));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    mma_bf16(acc[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
        }

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

    for (int i = 0; i < 2; ++i)
        for (int h = 0; h < 2; ++h) {
            const int m = m0 + wm + 16 * i + 8 * h + (lane >> 2);
            for (int j = 0; j < 4 && m < M; ++j)
                *reinterpret_cast<__nv_bfloat162*>(Y + (size_t)m * N + n0 + wn + 8 * j + (lane & 3) * 2) =
                    __floats2bfloat162_rn(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
        }
}
