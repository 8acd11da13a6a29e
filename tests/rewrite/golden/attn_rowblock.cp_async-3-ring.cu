// Softmax attention, one block per 16 query rows of one head (head width 64), keys and values in tiles of 32.
// Shows: three barriers per tile, a Q tile loaded once before the loop, a score scratch array in shared memory
// that belongs to the compute phase, running max and sum in registers, keys beyond n zeroed and masked.
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

#define BQ 16
#define BKV 32
#define HD 64

__global__ void __launch_bounds__(128)
attn_rowblock(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
              float* __restrict__ o, int n, float scale)
{
    constexpr int TP_STAGES = 3;
    __shared__ __align__(16) float qs[BQ][HD];
    __shared__ __align__(16) float ks_ring[TP_STAGES][BKV][HD + 4];
    __shared__ __align__(16) float vs_ring[TP_STAGES][BKV][HD];
    __shared__ float sc[BQ][BKV + 1];

    const size_t head = (size_t)blockIdx.y * n * HD;
    const int q0 = blockIdx.x * BQ;
    const int tid = threadIdx.x;
    const int row = tid / 8, lane = tid % 8;           // eight threads share a query row
    q += head; k += head; v += head; o += head;

    for (int i = tid; i < BQ * HD; i += 128)
        qs[i / HD][i % HD] = (q0 + i / HD < n) ? q[(size_t)q0 * HD + i] * scale : 0.f;

    float peak = -INFINITY, total = 0.f, acc[HD / 8] = {};

    int j0_next = 0;
    auto tp_load = [&](int tp_stage) {
        auto& ks = ks_ring[tp_stage];
        auto& vs = vs_ring[tp_stage];
        auto& j0 = j0_next;
        #pragma unroll
        for (int tp_i = 0; tp_i < 4; ++tp_i) {
            const int i = tid + tp_i * 128;
            const int r = i / (HD / 4), c = i % (HD / 4) * 4;
            tp_copy_or_zero(reinterpret_cast<float4*>(&ks[r][c]), reinterpret_cast<const float4*>(k + (size_t)(j0 + r) * HD + c), j0 + r < n);
            tp_copy_or_zero(reinterpret_cast<float4*>(&vs[r][c]), reinterpret_cast<const float4*>(v + (size_t)(j0 + r) * HD + c), j0 + r < n);
        }
        j0_next += BKV;
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (j0_next < n)
            tp_load(tp_s);
        tp_commit();
    }
    // main loop
    int tp_stage = 0;
    for (int j0 = 0; j0 < n; j0 += BKV) {
        tp_wait<TP_STAGES - 2>();
        __syncthreads();  // publishes this stage and frees the one consumed last
        if (j0_next < n)
            tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
        tp_commit();
        auto& ks = ks_ring[tp_stage];
        auto& vs = vs_ring[tp_stage];

        for (int c = lane; c < BKV; c += 8) {
            float dot = 0.f;
            for (int d = 0; d < HD; ++d)
                dot += qs[row][d] * ks[c][d];
            sc[row][c] = (j0 + c < n) ? dot : -INFINITY;
        }
        __syncthreads();

        float top = peak;
        for (int c = 0; c < BKV; ++c)
            top = fmaxf(top, sc[row][c]);
        const float shrink = __expf(peak - top);
        total *= shrink;
        for (int d = 0; d < HD / 8; ++d)
            acc[d] *= shrink;
        for (int c = 0; c < BKV; ++c) {
            const float p = __expf(sc[row][c] - top);
            total += p;
            for (int d = 0; d < HD / 8; ++d)
                acc[d] += p * vs[c][lane + 8 * d];
        }
        peak = top;

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

    if (q0 + row < n)
        for (int d = 0; d < HD / 8; ++d)
            o[(size_t)(q0 + row) * HD + lane + 8 * d] = acc[d] / total;
}
