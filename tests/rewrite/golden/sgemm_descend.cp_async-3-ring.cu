// C = A * B, panels of A staged in shared memory from the last one to the first, B read straight from global.
// Shows: descending loop (k0 -= depth), dynamic shared memory as one array whose extent is a kernel
// argument, copy loop with / and % by a run-time value, global loads in the compute phase.
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
#ifndef TILEPIPE_AT
#define TILEPIPE_AT
// A pointer into another stage: `bytes` further on.
template <class Element>
__device__ __forceinline__ Element* tp_at(Element* p, unsigned bytes)
{
    return reinterpret_cast<Element*>(reinterpret_cast<char*>(p) + bytes);
}
template <class Element>
__device__ __forceinline__ const Element* tp_at(const Element* p, unsigned bytes)
{
    return reinterpret_cast<const Element*>(reinterpret_cast<const char*>(p) + bytes);
}
__device__ __forceinline__ unsigned tp_at(unsigned address, unsigned bytes) { return address + bytes; }
#endif
#ifndef TILEPIPE_DYNAMIC
#define TILEPIPE_DYNAMIC
// The dynamic shared memory of this launch in bytes.
__device__ __forceinline__ unsigned tp_dynamic_bytes()
{
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}
#endif

#define ROWS 16

// A launch of the pipelined kernel must ask for this many times the dynamic shared memory of before,
// each stage rounded up to 16 bytes.
constexpr int sgemm_descend_stages = 3;

__global__ void sgemm_descend(const float* __restrict__ A, const float* __restrict__ B,
                              float* __restrict__ C, int N, int K, int depth)
{
    constexpr int TP_STAGES = 3;
    extern __shared__ float panel[];                   // ROWS x depth

    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    const int m0 = blockIdx.y * ROWS;

    float acc[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) acc[r] = 0.f;

    const unsigned tp_stride = tp_dynamic_bytes() / TP_STAGES;
    const auto panel_ring = panel;
    int k0_next = K - depth;
    auto tp_load = [&](int tp_stage) {
        auto panel = tp_at(panel_ring, tp_stage * tp_stride);
        auto& k0 = k0_next;
        for (int i = threadIdx.x; i < ROWS * depth; i += blockDim.x)
            tp_copy(&panel[i], &A[(size_t)(m0 + i / depth) * K + k0 + i % depth]);
        k0_next -= depth;
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (k0_next >= 0)
            tp_load(tp_s);
        tp_commit();
    }
    // main loop
    int tp_stage = 0;
    for (int k0 = K - depth; k0 >= 0; k0 -= depth) {   // K % depth == 0
        tp_wait<TP_STAGES - 2>();
        __syncthreads();  // publishes this stage and frees the one consumed last
        if (k0_next >= 0)
            tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
        tp_commit();
        auto panel = tp_at(panel_ring, tp_stage * tp_stride);

        for (int k = 0; k < depth; ++k) {
            const float b = B[(size_t)(k0 + k) * N + n];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                acc[r] += panel[r * depth + k] * b;
        }

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        C[(size_t)(m0 + r) * N + n] = acc[r];
}
