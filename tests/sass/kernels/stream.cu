// y = p(x) for n floats, n % 1024 == 0, in tiles of 1024 by 256 threads. By construction next to no math a tile where p
// has degree 1 (four multiply-adds a thread), and enough to hide a load behind where it has degree 16.
#define PARAMS const float *__restrict__ x, float *__restrict__ y, float a, int n

constexpr int TILE = 1024;

__device__ void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

template <int DEGREE> __device__ float polynomial(float x, float a)
{
    float v = a;
#pragma unroll
    for (int d = 0; d < DEGREE; ++d) v = v * x + a;
    return v;
}
// Few instructions, but on a slow unit; and as many as somebody wants at run time.
constexpr int ROOT = 0, OPEN = -1;
template <> __device__ float polynomial<ROOT>(float x, float)
{
    float v;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(v) : "f"(x));
    return v;
}
template <> __device__ float polynomial<OPEN>(float x, float a)
{
    float v = a;
#pragma unroll 1
    for (unsigned d = 0; d < gridDim.y; ++d) v = v * x + a;
    return v;
}
// Each thread computes on what another one copied.
template <int DEGREE> __device__ void compute(const float *tile, float *y, float a)
{
    const int at = (threadIdx.x ^ 32) * 4;
    const float4 v = *reinterpret_cast<const float4 *>(tile + at);
    *reinterpret_cast<float4 *>(y + at) = make_float4(polynomial<DEGREE>(v.x, a), polynomial<DEGREE>(v.y, a),
                                                      polynomial<DEGREE>(v.z, a), polynomial<DEGREE>(v.w, a));
}
__device__ float4 load(const float *x) { return *reinterpret_cast<const float4 *>(x + threadIdx.x * 4); }
__device__ void store(float *tile, float4 v) { *reinterpret_cast<float4 *>(tile + threadIdx.x * 4) = v; }

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(256) name(PARAMS)
#define STEP ((int)gridDim.x * TILE)

#define ORIGINAL(name, DEGREE)                                                                                         \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        __shared__ __align__(16) float tile[TILE];                                                                     \
        for (int base = blockIdx.x * TILE; base < n; base += STEP) {                                                   \
            store(tile, load(x + base));                                                                               \
            __syncthreads();                                                                                           \
            compute<DEGREE>(tile, y + base, a);                                                                        \
            __syncthreads();                                                                                           \
        }                                                                                                              \
    }

// ORDER is what stands at a tile's start: the wait and the barrier.
#define RING(name, S, ORDER, DEGREE)                                                                                   \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        __shared__ __align__(16) float tile[S][TILE];                                                                  \
        int next = blockIdx.x * TILE, stage = 0;                                                                       \
        for (int s = 0; s < S - 1; ++s) {                                                                              \
            if (next < n) copy16(&tile[s][threadIdx.x * 4], x + next + threadIdx.x * 4), next += STEP;                 \
            commit();                                                                                                  \
        }                                                                                                              \
        for (int base = blockIdx.x * TILE; base < n; base += STEP) {                                                   \
            ORDER;                                                                                                     \
            float *to = tile[stage == 0 ? S - 1 : stage - 1];                                                          \
            if (next < n) copy16(to + threadIdx.x * 4, x + next + threadIdx.x * 4), next += STEP;                      \
            commit();                                                                                                  \
            compute<DEGREE>(tile[stage], y + base, a);                                                                 \
            stage = stage + 1 == S ? 0 : stage + 1;                                                                    \
        }                                                                                                              \
        wait<0>();                                                                                                     \
    }

#define STAGED(name, DEGREE)                                                                                           \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        __shared__ __align__(16) float tile[2][TILE];                                                                  \
        int base = blockIdx.x * TILE, buffer = 0;                                                                      \
        if (base < n) store(tile[0], load(x + base));                                                                  \
        __syncthreads();                                                                                               \
        for (; base < n; base += STEP) {                                                                               \
            const bool more = base + STEP < n;                                                                         \
            float4 v = {};                                                                                             \
            if (more) v = load(x + base + STEP);                                                                       \
            compute<DEGREE>(tile[buffer], y + base, a);                                                                \
            if (more) store(tile[buffer ^ 1], v);                                                                      \
            __syncthreads();                                                                                           \
            buffer ^= 1;                                                                                               \
        }                                                                                                              \
    }

ORIGINAL(stream_original, 1)
RING(stream_ring2, 2, wait<0>(); __syncthreads(), 1)
RING(stream_ring3, 3, wait<1>(); __syncthreads(), 1)
STAGED(stream_staged, 1)
RING(stream_bad_no_wait, 2, __syncthreads(), 1)
RING(stream_bad_barrier_before_wait, 2, __syncthreads(); wait<0>(), 1)
ORIGINAL(polynomial_original, 16)
RING(polynomial_ring2, 2, wait<0>(); __syncthreads(), 16)
RING(polynomial_ring3, 3, wait<1>(); __syncthreads(), 16)
STAGED(polynomial_staged, 16)
ORIGINAL(root_original, ROOT)
RING(root_ring2, 2, wait<0>(); __syncthreads(), ROOT)
ORIGINAL(open_original, OPEN)
RING(open_ring2, 2, wait<0>(); __syncthreads(), OPEN)
