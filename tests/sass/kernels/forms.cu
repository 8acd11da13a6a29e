// C = A * B in 64x64 tiles, 256 threads, 4x4 outputs a thread; M, N % 64 == 0, K % 16 == 0. One kernel for each form that
// the audit must tell apart: the original, right pipelines, and pipelines with one planted defect each.
#include <cuda_pipeline.h>

constexpr int BM = 64, BN = 64, BK = 16;

#define PARAMS const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int N, int K

struct Tile {
    float a[BM][BK + 4];
    float b[BK][BN];
};

struct Thread {
    const float *a, *b;
    float *c;
    int ar, ac, br, bc, ty, tx;
    float acc[4][4];

    __device__ Thread(const float *A, const float *B, float *C, int N, int K) : acc{}
    {
        const int t = threadIdx.x;
        ar = t / 4, ac = t % 4 * 4, br = t / 16, bc = t % 16 * 4, ty = t / 16 * 4, tx = t % 16 * 4;
        a = A + (blockIdx.y * BM + ar) * K + ac;
        b = B + br * N + blockIdx.x * BN + bc;
        c = C + (blockIdx.y * BM + ty) * N + blockIdx.x * BN + tx;
    }
    __device__ float4 load_a(int k) const { return *reinterpret_cast<const float4 *>(a + k); }
    __device__ float4 load_b(int k, int N) const { return *reinterpret_cast<const float4 *>(b + (size_t)k * N); }
    __device__ void store(Tile &tile, float4 va, float4 vb) const
    {
        *reinterpret_cast<float4 *>(&tile.a[ar][ac]) = va;
        *reinterpret_cast<float4 *>(&tile.b[br][bc]) = vb;
    }
    __device__ void compute(const Tile &tile, int from = 0, int to = BK)
    {
#pragma unroll
        for (int k = from; k < to; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += tile.a[ty + i][k] * tile.b[k][tx + j];
    }
    __device__ void copy(Tile &tile, int k, int N) const
    {
        copy16(&tile.a[ar][ac], a + k);
        copy16(&tile.b[br][bc], b + (size_t)k * N);
    }
    __device__ static void copy16(void *to, const void *from)
    {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                     "l"(from)
                     : "memory");
    }
    __device__ void finish(int N) const
    {
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) c[i * N + j] = acc[i][j];
    }
};

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// ---- the original ----

extern "C" __global__ void __launch_bounds__(256) original(PARAMS)
{
    __shared__ Tile tile;
    Thread t(A, B, C, N, K);
    for (int k = 0; k < K; k += BK) {
        t.store(tile, t.load_a(k), t.load_b(k, N));
        __syncthreads();
        t.compute(tile);
        __syncthreads();
    }
    t.finish(N);
}

// ---- right pipelines ----

// RING: wait<PENDING>, barrier, next copies, compute.
#define RING(name, S, PENDING, GUARD, COMPUTE)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) name(PARAMS)                                                     \
    {                                                                                                                  \
        __shared__ Tile tile[S];                                                                                       \
        Thread t(A, B, C, N, K);                                                                                       \
        int next = 0, stage = 0;                                                                                       \
        for (int s = 0; s < S - 1; ++s) {                                                                              \
            if (next < K) t.copy(tile[s], next, N), next += BK;                                                        \
            commit();                                                                                                  \
        }                                                                                                              \
        for (int k = 0; k < K; k += BK) {                                                                              \
            wait<PENDING>();                                                                                           \
            __syncthreads();                                                                                           \
            if (GUARD) t.copy(tile[stage == 0 ? S - 1 : stage - 1], next, N), next += BK;                              \
            commit();                                                                                                  \
            COMPUTE;                                                                                                   \
            stage = stage + 1 == S ? 0 : stage + 1;                                                                    \
        }                                                                                                              \
        wait<0>();                                                                                                     \
        t.finish(N);                                                                                                   \
    }
RING(ring2, 2, 0, next < K, t.compute(tile[stage]))
RING(ring3, 3, 1, next < K, t.compute(tile[stage]))
RING(ring4, 4, 2, next < K, t.compute(tile[stage]))
RING(ring3_author_barriers, 3, 1, next < K, t.compute(tile[stage], 0, BK / 4); __syncthreads();
     t.compute(tile[stage], BK / 4, BK / 2); __syncthreads(); t.compute(tile[stage], BK / 2))

// The compute loop is kept rolled: the math in the text is a quarter of what runs.
RING(ring3_rolled, 3, 1, next < K, {
    _Pragma("unroll 1") for (int part = 0; part < 4; ++part)
        t.compute(*reinterpret_cast<Tile *>(&tile[stage].a[0][part * 4]), 0, 4);
})

extern "C" __global__ void __launch_bounds__(256) original_rolled(PARAMS)
{
    __shared__ Tile tile;
    Thread t(A, B, C, N, K);
    for (int k = 0; k < K; k += BK) {
        t.store(tile, t.load_a(k), t.load_b(k, N));
        __syncthreads();
        for (int part = 0; part < 4; ++part)
            t.compute(*reinterpret_cast<Tile *>(&tile.a[0][part * 4]), 0, 4);
        __syncthreads();
    }
    t.finish(N);
}

extern "C" __global__ void __launch_bounds__(256) original_author_barriers(PARAMS)
{
    __shared__ Tile tile;
    Thread t(A, B, C, N, K);
    for (int k = 0; k < K; k += BK) {
        t.store(tile, t.load_a(k), t.load_b(k, N));
        __syncthreads();
        t.compute(tile, 0, BK / 4);
        __syncthreads();
        t.compute(tile, BK / 4, BK / 2);
        __syncthreads();
        t.compute(tile, BK / 2);
        __syncthreads();
    }
    t.finish(N);
}

// The textbook form: two buffers, commit, compute, wait 0, barrier; the last tile peeled.
extern "C" __global__ void __launch_bounds__(256) textbook(PARAMS)
{
    __shared__ Tile tile[2];
    Thread t(A, B, C, N, K);
    if (K > 0) t.copy(tile[0], 0, N);
    commit();
    wait<0>();
    __syncthreads();
    int buffer = 0;
    for (int k = 0; k + BK < K; k += BK) {
        t.copy(tile[buffer ^ 1], k + BK, N);
        commit();
        t.compute(tile[buffer]);
        wait<0>();
        __syncthreads();
        buffer ^= 1;
    }
    if (K > 0) t.compute(tile[buffer]);
    t.finish(N);
}

// Two buffers filled through registers, one barrier a tile.
#define STAGED(name, BEFORE, AFTER)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) name(PARAMS)                                                     \
    {                                                                                                                  \
        __shared__ Tile tile[2];                                                                                       \
        Thread t(A, B, C, N, K);                                                                                       \
        if (K > 0) t.store(tile[0], t.load_a(0), t.load_b(0, N));                                                      \
        __syncthreads();                                                                                               \
        int buffer = 0;                                                                                                \
        float4 va = {}, vb = {};                                                                                       \
        for (int k = 0; k < K; k += BK) {                                                                              \
            const bool more = k + BK < K;                                                                              \
            BEFORE;                                                                                                    \
            t.compute(tile[buffer]);                                                                                   \
            AFTER;                                                                                                     \
            if (more) t.store(tile[buffer ^ 1], va, vb);                                                               \
            __syncthreads();                                                                                           \
            buffer ^= 1;                                                                                               \
        }                                                                                                              \
        t.finish(N);                                                                                                   \
    }
#define LOAD_NEXT if (more) va = t.load_a(k + BK), vb = t.load_b(k + BK, N)
STAGED(staged, LOAD_NEXT, )

// One buffer, the next tile held in registers over the math.
extern "C" __global__ void __launch_bounds__(256) prefetch(PARAMS)
{
    __shared__ Tile tile;
    Thread t(A, B, C, N, K);
    if (K > 0) t.store(tile, t.load_a(0), t.load_b(0, N));
    float4 va = {}, vb = {};
    for (int k = 0; k < K; k += BK) {
        __syncthreads();
        const bool more = k + BK < K;
        LOAD_NEXT;
        t.compute(tile);
        __syncthreads();
        if (more) t.store(tile, va, vb);
    }
    t.finish(N);
}

// The pipelined loop beside the author's own, chosen by alignment.
extern "C" __global__ void __launch_bounds__(256) dispatched(PARAMS)
{
    __shared__ Tile tile[2];
    Thread t(A, B, C, N, K);
    if (((size_t)A & 15) == 0) {
        if (K > 0) t.store(tile[0], t.load_a(0), t.load_b(0, N));
        __syncthreads();
        int buffer = 0;
        float4 va = {}, vb = {};
        for (int k = 0; k < K; k += BK) {
            const bool more = k + BK < K;
            LOAD_NEXT;
            t.compute(tile[buffer]);
            if (more) t.store(tile[buffer ^ 1], va, vb);
            __syncthreads();
            buffer ^= 1;
        }
    } else {
        for (int k = 0; k < K; k += BK) {
            for (int j = 0; j < 4; ++j) tile[0].a[t.ar][t.ac + j] = t.a[k + j];
            for (int j = 0; j < 4; ++j) tile[0].b[t.br][t.bc + j] = t.b[(size_t)k * N + j];
            __syncthreads();
            t.compute(tile[0]);
            __syncthreads();
        }
    }
    t.finish(N);
}

// ---- planted defects ----

// Sunk: the loads need a result of the math (a condition that never holds), so they cannot be issued before it.
STAGED(bad_sunk, , const int late = k + BK + (t.acc[3][3] == 1e30f); 
       if (more) { va = t.load_a(late); vb = t.load_b(late, N); })

// Used at once: a check of the loaded values waits for them before the math.
STAGED(bad_used_at_once, LOAD_NEXT; if (va.x == 1e30f || vb.x == 1e30f) t.acc[0][0] = 0.f, )

// A barrier between the loads and the math; volatile loads stay where they are.
#define LOAD_NEXT_HERE if (more) va = load_here(t.a + k + BK), vb = load_here(t.b + (size_t)(k + BK) * N)
__device__ float4 load_here(const float *from)
{
    float4 v;
    asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
STAGED(bad_barrier_between, LOAD_NEXT_HERE; __syncthreads(), )

// Waits for what has just been committed.
RING(bad_waits_at_once, 3, 1, next < K, wait<0>(); t.compute(tile[stage]))

// Waits one group too late: a stage is read before its copies are complete.
RING(bad_waits_late, 3, 2, next < K, t.compute(tile[stage]))

// Half of the math is lost.
RING(bad_half_math, 3, 1, next < K, t.compute(tile[stage], 0, BK / 2))

// No wait in the loop.
extern "C" __global__ void __launch_bounds__(256) bad_no_wait(PARAMS)
{
    __shared__ Tile tile[2];
    Thread t(A, B, C, N, K);
    if (K > 0) t.copy(tile[0], 0, N);
    commit();
    int stage = 0;
    for (int k = 0; k < K; k += BK) {
        __syncthreads();
        if (k + BK < K) t.copy(tile[stage ^ 1], k + BK, N);
        commit();
        t.compute(tile[stage]);
        stage ^= 1;
    }
    wait<0>();
    t.finish(N);
}

// The barrier stands before the wait: other threads' copies are not published.
extern "C" __global__ void __launch_bounds__(256) bad_barrier_before_wait(PARAMS)
{
    __shared__ Tile tile[2];
    Thread t(A, B, C, N, K);
    if (K > 0) t.copy(tile[0], 0, N);
    commit();
    int stage = 0;
    for (int k = 0; k < K; k += BK) {
        __syncthreads();
        wait<0>();
        if (k + BK < K) t.copy(tile[stage ^ 1], k + BK, N);
        commit();
        t.compute(tile[stage]);
        stage ^= 1;
    }
    t.finish(N);
}

// Spills: so many blocks are asked for that the accumulators do not fit.
extern "C" __global__ void __launch_bounds__(256, 6) bad_spilled(PARAMS)
{
    __shared__ Tile tile[2];
    Thread t(A, B, C, N, K);
    if (K > 0) t.copy(tile[0], 0, N);
    commit();
    int stage = 0;
    for (int k = 0; k < K; k += BK) {
        wait<0>();
        __syncthreads();
        if (k + BK < K) t.copy(tile[stage ^ 1], k + BK, N);
        commit();
        t.compute(tile[stage]);
        stage ^= 1;
    }
    t.finish(N);
}

// A 2-byte copy: the header's primitive takes it, and it compiles into a trap.
RING(bad_trap, 3, 1, next < K, if (N == 7) __pipeline_memcpy_async(&tile[stage].a[0][0], A, 2); t.compute(tile[stage]))

// The tile loop has a constant trip count and is unrolled away.
extern "C" __global__ void __launch_bounds__(256) unrolled(PARAMS)
{
    __shared__ Tile tile[2];
    Thread t(A, B, C, N, K);
    t.copy(tile[0], 0, N);
    commit();
#pragma unroll
    for (int k = 0; k < 4 * BK; k += BK) {
        wait<0>();
        __syncthreads();
        if (k + BK < 4 * BK) t.copy(tile[(k / BK + 1) % 2], k + BK, N);
        commit();
        t.compute(tile[k / BK % 2]);
    }
    t.finish(N);
}
