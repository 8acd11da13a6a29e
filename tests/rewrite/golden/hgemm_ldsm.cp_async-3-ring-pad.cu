// C[M,N] = A[M,K] * B[K,N] in fp16 with mma.sync m16n8k16, fp32 sums, 64x64x32 tile, four warps. M and N must be
// multiples of 64, K of 32. Addresses go to ldmatrix through a macro, a helper and a pointer.
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

constexpr int TM = 64, TN = 64, TK = 32;

#define LDSM_X4(d, address)                                                                          \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(address))

__device__ __forceinline__ void transposed_x2(unsigned (&d)[2], const half* row)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1]) : "r"(address));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(128)
hgemm_ldsm(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    constexpr int TP_STAGES = 3;
    __shared__ __align__(16) half at_ring[TP_STAGES][TM][TK + 8];
    __shared__ __align__(16) half bt_ring[TP_STAGES][TK][TN + 8];

    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

    float acc[2][4][4] = {};

    int k0_next = 0;
    auto tp_load = [&](int tp_stage) {
        auto& at = at_ring[tp_stage];
        auto& bt = bt_ring[tp_stage];
        auto& k0 = k0_next;
        #pragma unroll
        for (int tp_e = 0; tp_e < 2; ++tp_e) {
            const int e = t + tp_e * 128;
            tp_copy(reinterpret_cast<uint4*>(&at[e / 4][e % 4 * 8]), reinterpret_cast<const uint4*>(&A[(size_t)(m0 + e / 4) * K + k0 + e % 4 * 8]));
        }
        #pragma unroll
        for (int tp_e = 0; tp_e < 2; ++tp_e) {
            const int e = t + tp_e * 128;
            tp_copy((uint4*)(&bt[e / 8][0] + e % 8 * 8), reinterpret_cast<const uint4*>(&B[(size_t)(k0 + e / 8) * N + n0 + e % 8 * 8]));
        }
        k0_next += TK;
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (k0_next < K)
            tp_load(tp_s);
        tp_commit();
    }
    // main loop
    int tp_stage = 0;
    for (int k0 = 0; k0 < K; k0 += TK) {
        tp_wait<TP_STAGES - 2>();
        __syncthreads();  // publishes this stage and frees the one consumed last
        if (k0_next < K)
            tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
        tp_commit();
        auto& at = at_ring[tp_stage];
        auto& bt = bt_ring[tp_stage];

        #pragma unroll
        for (int kk = 0; kk < TK; kk += 16) {
            unsigned a[2][4], b[4][2];
            for (int i = 0; i < 2; ++i) {
                const half* corner = &at[wm + i * 16 + (lane & 15)][kk];
                const unsigned address = __cvta_generic_to_shared(corner + (lane >> 4) * 8);
                LDSM_X4(a[i], address);
            }
            for (int j = 0; j < 4; ++j)
                transposed_x2(b[j], &bt[kk + (lane & 15)][wn + j * 8]);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j)
                    multiply(acc[i][j], a[i], b[j]);
        }

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int h = 0; h < 4; ++h) {
                const int m = m0 + wm + i * 16 + (lane >> 2) + (h >> 1) * 8;
                C[(size_t)m * N + n0 + wn + j * 8 + (lane & 3) * 2 + (h & 1)] = acc[i][j][h];
            }
}
