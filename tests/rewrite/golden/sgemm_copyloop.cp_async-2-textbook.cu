// C = A * B with leading dimensions, 48x64 tile per block, 4x4 outputs per thread.
// Shows: static 1-D tiles, cooperative copy loops with / and % (the B loop does not divide by the
// thread count), edges by if / else-zero, k0 += BK, load first.
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

#define BM 48
#define BN 64
#define BK 16
#define NT 192                                         // (BM / 4) * (BN / 4)

__global__ void __launch_bounds__(NT)
sgemm_copyloop(int M, int N, int K, const float* __restrict__ A, int lda,
               const float* __restrict__ B, int ldb, float* __restrict__ C, int ldc)
{
    constexpr int TP_STAGES = 2;
    __shared__ float sA_ring[TP_STAGES][BM * BK];
    __shared__ float sB_ring[TP_STAGES][BK * BN];

    const int tid = threadIdx.x;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int tr = (tid / (BN / 4)) * 4, tc = (tid % (BN / 4)) * 4;

    float acc[4][4] = {};

    int k0_next = 0;
    auto tp_load = [&](int tp_stage) {
        auto& sA = sA_ring[tp_stage];
        auto& sB = sB_ring[tp_stage];
        auto& k0 = k0_next;
        #pragma unroll
        for (int tp_i = 0; tp_i < 4; ++tp_i) {
            const int i = tid + tp_i * NT;
            const int r = i / BK, c = i % BK;
            tp_copy_or_zero(&sA[i], &A[(m0 + r) * lda + k0 + c], m0 + r < M && k0 + c < K);
        }
        #pragma unroll
        for (int tp_i = 0; tp_i < 6; ++tp_i) {
            const int i = tid + tp_i * NT;
            if (i >= BK * BN) break;
            const int r = i / BN, c = i % BN;
            tp_copy_or_zero(&sB[i], &B[(k0 + r) * ldb + n0 + c], k0 + r < K && n0 + c < N);
        }
    };
    auto tp_advance = [&] {
        k0_next += BK;
    };
    // prologue: tile 0
    if (k0_next < K) {
        tp_load(0);
        tp_advance();
    }
    tp_commit();
    tp_wait<0>();
    __syncthreads();
    int k0 = 0;
    auto tp_compute = [&](int tp_stage) {
        auto& sA = sA_ring[tp_stage];
        auto& sB = sB_ring[tp_stage];
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += sA[(tr + i) * BK + k] * sB[k * BN + tc + j];

    };
    // main loop: tiles - 1 turns, each loads the next tile while it computes
    int tp_stage = 0;
    for (; k0_next < K; k0 += BK) {
        tp_load(tp_stage ^ 1);
        tp_commit();
        tp_compute(tp_stage);
        tp_advance();
        tp_wait<0>();
        __syncthreads();  // publishes the next tile and frees this one
        tp_stage ^= 1;
    }
    // epilogue: the last tile
    if (k0 < K)
        tp_compute(tp_stage);

    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            if (m0 + tr + i < M && n0 + tc + j < N)
                C[(m0 + tr + i) * ldc + n0 + tc + j] = acc[i][j];
}
