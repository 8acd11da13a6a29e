// Y = X * dequant(Wq): half activations, int8 weights with one scale per 64 rows and column, wmma fp16, float out.
// Shows: arithmetic between load and store (int8 -> half with a scale) for one tile beside a plain 16-byte copy
// for the other, padded rows, tile-index ++, a scale address that changes every second tile.
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
#ifndef TILEPIPE_STORE_WIDE
#define TILEPIPE_STORE_WIDE
// Stores an array of the thread's own to shared memory, `Bytes` bytes at a time; both addresses are multiples of them.
template <int Bytes, class Element, int Count>
__device__ __forceinline__ void tp_store_wide(Element* to, const Element (&from)[Count])
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    static_assert(sizeof(from) % Bytes == 0, "a whole number of vectors");
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(from)) / Bytes; ++i) {
        if constexpr (Bytes == 16)
            reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
        else if constexpr (Bytes == 8)
            reinterpret_cast<uint2*>(to)[i] = reinterpret_cast<const uint2*>(from)[i];
        else
            reinterpret_cast<unsigned*>(to)[i] = reinterpret_cast<const unsigned*>(from)[i];
    }
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
#include <mma.h>

using namespace nvcuda;

#define GROUP 64

__global__ void __launch_bounds__(128)
w8a16_groups(const __half* __restrict__ X, const signed char* __restrict__ Wq, const float* __restrict__ scale,
             float* __restrict__ Y, int N, int K)
{
    constexpr int TP_STAGES = 4;
    __shared__ __align__(32) __half xs_ring[TP_STAGES][32][40];
    __shared__ __align__(32) __half wsm_ring[2][32][72];

    const int tid = threadIdx.x, warp = tid >> 5;
    const int m0 = blockIdx.y * 32, n0 = blockIdx.x * 64;
    const int xr = tid >> 2, xc = (tid & 3) * 8;       // 32 rows x 4 chunks of 8 half
    const int wr = tid >> 2, wc = (tid & 3) * 16;      // 32 rows x 4 chunks of 16 int8

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.f);
    wmma::fill_fragment(acc[1], 0.f);

    const int nTiles = K / 32;
    __shared__ int4 tp_Wq0_ring[TP_STAGES][128];  // each thread's own
    const unsigned tp_thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int t_next = 0;
    int t_after = 0;
    auto tp_load = [&](int tp_stage) {
        auto& xs = xs_ring[tp_stage];
        auto& t = t_next;
        const int k = t * 32;
        tp_copy(reinterpret_cast<uint4*>(&xs[xr][xc]), reinterpret_cast<const uint4*>(X + (size_t)(m0 + xr) * K + k + xc));
        tp_copy(&tp_Wq0_ring[tp_stage][tp_thread], reinterpret_cast<const int4*>(Wq + (size_t)(k + wr) * N + n0 + wc));
        ++t_next;
    };
    auto tp_store = [&](int tp_stage, int tp_buffer) {
        auto& wsm = wsm_ring[tp_buffer];
        auto& t = t_after;
        const int k = t * 32;
        const int4 packed = tp_Wq0_ring[tp_stage][tp_thread];
        const signed char* q = reinterpret_cast<const signed char*>(&packed);
        const float* s = scale + (size_t)((k + wr) / GROUP) * N + n0 + wc;
        __align__(16) __half tp_wsm_values[16];
        #pragma unroll
        for (int j = 0; j < 16; ++j)
            tp_wsm_values[j] = __float2half((float)q[j] * s[j]);
        tp_store_wide<16>(&wsm[wr][wc], tp_wsm_values);
        ++t_after;
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (t_next < nTiles)
            tp_load(tp_s);
        tp_commit();
    }
    tp_wait<TP_STAGES - 2>();
    if (t_after < nTiles)
        tp_store(0, 0);
    __syncthreads();
    // main loop: a thread moves what it stashed of the next tile on when it has computed this one
    int tp_stage = 0;
    int tp_buffer = 0;
    for (int t = 0; t < nTiles; ++t) {
        if (t_next < nTiles)
            tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
        tp_commit();
        auto& xs = xs_ring[tp_stage];
        auto& wsm = wsm_ring[tp_buffer];

#pragma unroll
        for (int kk = 0; kk < 32; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
            wmma::load_matrix_sync(a, &xs[(warp >> 1) * 16][kk], 40);
            for (int j = 0; j < 2; ++j) {
                wmma::load_matrix_sync(b, &wsm[kk][(warp & 1) * 32 + 16 * j], 72);
                wmma::mma_sync(acc[j], a, b, acc[j]);
            }
        }

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
        tp_buffer ^= 1;
        tp_wait<TP_STAGES - 2>();
        if (t_after < nTiles)
            tp_store(tp_stage, tp_buffer);
        __syncthreads();  // publishes the next tile and frees this one
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

    float* out = Y + (size_t)(m0 + (warp >> 1) * 16) * N + n0 + (warp & 1) * 32;
    wmma::store_matrix_sync(out, acc[0], N, wmma::mem_row_major);
    wmma::store_matrix_sync(out + 16, acc[1], N, wmma::mem_row_major);
}
