// Shapes of main loops that the compiler makes of real kernels: integer math, tensor instructions, copy loops that are not
// unrolled, conversions on the way to shared memory, an outer loop around the tile loop, direct reads beside the staged ones.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
using u8 = unsigned char;
using s8 = signed char;

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
template <int BYTES> __device__ void copy(void *to, const void *from)
{
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
                     : "memory");
}

// ---- bytes: 32x64x64, one byte a copy step, integer math, the compute loop kept rolled by the compiler ----

constexpr int MT = 32, NT = 64, KT = 64, THREADS = 128;

struct Bytes {
    const u8 *A;
    const s8 *B;
    int M, N, K, zero, m0, n0, tid, tm, tn;
    int acc[4][4];

    __device__ u8 a(int i, int k) const
    {
        const int r = i / KT, c = i % KT;
        return m0 + r < M && k + c < K ? A[(m0 + r) * K + k + c] : (u8)zero;
    }
    __device__ s8 b(int i, int k) const
    {
        const int r = i / NT, c = i % NT;
        return k + r < K && n0 + c < N ? B[(k + r) * N + n0 + c] : (s8)0;
    }
    __device__ void compute(const u8 *act, const s8 *wgt)
    {
        for (int kk = 0; kk < KT; ++kk)
            for (int i = 0; i < 4; ++i) {
                const int x = (int)act[(tm + i) * KT + kk] - zero;
                for (int j = 0; j < 4; ++j) acc[i][j] += x * wgt[kk * NT + tn + j];
            }
    }
    __device__ void finish(int *C) const
    {
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) C[(m0 + tm + i) * N + n0 + tn + j] = acc[i][j];
    }
};

#define BYTES_PARAMS const u8 *__restrict__ A, const s8 *__restrict__ B, int *__restrict__ C, int M, int N, int K, int zero
#define BYTES_THREAD                                                                                                   \
    const int tid = threadIdx.x;                                                                                       \
    Bytes t{A, B, M, N, K, zero, (int)blockIdx.y * MT, (int)blockIdx.x * NT, tid, tid / 16 * 4, tid % 16 * 4, {}}

extern "C" __global__ void bytes_original(BYTES_PARAMS)
{
    __shared__ u8 act[MT * KT];
    __shared__ s8 wgt[KT * NT];
    BYTES_THREAD;
    for (int k = 0; k < K; k += KT) {
        for (int i = tid; i < MT * KT; i += THREADS) act[i] = t.a(i, k);
        for (int i = tid; i < KT * NT; i += THREADS) wgt[i] = t.b(i, k);
        __syncthreads();
        t.compute(act, wgt);
        __syncthreads();
    }
    t.finish(C);
}

extern "C" __global__ void bytes_staged(BYTES_PARAMS)
{
    __shared__ u8 act[2][MT * KT];
    __shared__ s8 wgt[2][KT * NT];
    BYTES_THREAD;
    u8 ra[MT * KT / THREADS];
    s8 rb[KT * NT / THREADS];
    auto load = [&](int k) {
        for (int s = 0; s < MT * KT / THREADS; ++s) ra[s] = t.a(tid + s * THREADS, k);
        for (int s = 0; s < KT * NT / THREADS; ++s) rb[s] = t.b(tid + s * THREADS, k);
    };
    auto store = [&](int buffer) {
        for (int s = 0; s < MT * KT / THREADS; ++s) act[buffer][tid + s * THREADS] = ra[s];
        for (int s = 0; s < KT * NT / THREADS; ++s) wgt[buffer][tid + s * THREADS] = rb[s];
    };
    if (0 < K) load(0), store(0);
    __syncthreads();
    int buffer = 0;
    for (int k = 0; k < K; k += KT) {
        if (k + KT < K) load(k + KT);
        t.compute(act[buffer], wgt[buffer]);
        if (k + KT < K) store(buffer ^ 1);
        __syncthreads();
        buffer ^= 1;
    }
    t.finish(C);
}

// ---- batch: a ring whose 4-byte copies stand in a loop that is not unrolled, inside an outer loop over a batch ----

#define TILE 32
#define BATCH_PARAMS const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int n, int batch

__device__ void dot(float &sum, const float (&a)[TILE][TILE], const float (&b)[TILE][TILE])
{
    for (int k = 0; k < TILE; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
}

extern "C" __global__ void batch_original(BATCH_PARAMS)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int x = threadIdx.x, row = blockIdx.y * TILE, col = blockIdx.x * TILE + x;
    for (int i = 0; i < batch; ++i, A += n * n, B += n * n, C += n * n) {
        float sum = 0.f;
        for (int k = 0; k < n; k += TILE) {
            for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
                a[y][x] = A[(row + y) * n + k + x];
                b[y][x] = B[(k + y) * n + col];
            }
            __syncthreads();
            dot(sum, a, b);
            __syncthreads();
        }
        C[(row + threadIdx.y) * n + col] = sum;
    }
}

extern "C" __global__ void batch_ring(BATCH_PARAMS)
{
    __shared__ float a[3][TILE][TILE], b[3][TILE][TILE];
    const int x = threadIdx.x, row = blockIdx.y * TILE, col = blockIdx.x * TILE + x;
    for (int i = 0; i < batch; ++i, A += n * n, B += n * n, C += n * n) {
        float sum = 0.f;
        int next = 0, stage = 0;
        auto load = [&](int s) {
            for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
                copy<4>(&a[s][y][x], &A[(row + y) * n + next + x]);
                copy<4>(&b[s][y][x], &B[(next + y) * n + col]);
            }
            next += TILE;
        };
        for (int s = 0; s < 2; ++s) {
            if (next < n) load(s);
            commit();
        }
        for (int k = 0; k < n; k += TILE) {
            wait<1>();
            __syncthreads();
            if (next < n) load(stage == 0 ? 2 : stage - 1);
            commit();
            dot(sum, a[stage], b[stage]);
            stage = stage + 1 == 3 ? 0 : stage + 1;
        }
        wait<0>();
        __syncthreads();
        C[(row + threadIdx.y) * n + col] = sum;
    }
}

// ---- tensor: int8 weights widened to half on the way, a scale read directly from global memory ----

constexpr int TM = 64, TN = 64, TK = 32, LD = 72;

#define TENSOR_PARAMS const half *__restrict__ A, const s8 *__restrict__ B, const float *__restrict__ scale, float *__restrict__ C, int N, int K

struct Tensor {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    int warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;

    __device__ Tensor()
    {
        for (auto &row : acc)
            for (auto &f : row) wmma::fill_fragment(f, 0.f);
    }
    __device__ void compute(const half *a, const half *b)
    {
        for (int k = 0; k < TK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(fa[i], a + (wm + 16 * i) * LD + k, LD);
                wmma::load_matrix_sync(fb[i], b + k * LD + wn + 16 * i, LD);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
    }
    __device__ void finish(float *C, int N)
    {
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                wmma::store_matrix_sync(C + (blockIdx.y * TM + wm + 16 * i) * N + blockIdx.x * TN + wn + 16 * j, acc[i][j],
                                        N, wmma::mem_row_major);
    }
};

__device__ uint4 read_a(const half *A, int K, int k, int s)
{
    const int e = threadIdx.x + s * 128;
    return *reinterpret_cast<const uint4 *>(A + (size_t)(blockIdx.y * TM + e / 4) * K + k + e % 4 * 8);
}
__device__ uint4 read_b(const s8 *B, int N, int k)
{
    const int e = threadIdx.x;
    return *reinterpret_cast<const uint4 *>(B + (size_t)(k + e / 4) * N + blockIdx.x * TN + e % 4 * 16);
}
__device__ void write_a(half *a, uint4 v, int s)
{
    const int e = threadIdx.x + s * 128;
    *reinterpret_cast<uint4 *>(a + e / 4 * LD + e % 4 * 8) = v;
}
__device__ void write_b(half *b, uint4 v, float f)
{
    const int e = threadIdx.x;
    const s8 *bytes = reinterpret_cast<const s8 *>(&v);
    for (int j = 0; j < 16; ++j) b[e / 4 * LD + e % 4 * 16 + j] = __float2half(bytes[j] * f);
}

extern "C" __global__ void __launch_bounds__(128) tensor_original(TENSOR_PARAMS)
{
    __shared__ half a[TM * LD], b[TK * LD];
    Tensor t;
    for (int k = 0; k < K; k += TK) {
        for (int s = 0; s < 2; ++s) write_a(a, read_a(A, K, k, s), s);
        write_b(b, read_b(B, N, k), scale[k / TK * 128 + threadIdx.x]);
        __syncthreads();
        t.compute(a, b);
        __syncthreads();
    }
    t.finish(C, N);
}

// A is copied asynchronously, B passes through registers and is converted after the math.
#define MIXED(name, EARLY, LATE)                                                                                       \
    extern "C" __global__ void __launch_bounds__(128) name(TENSOR_PARAMS)                                              \
    {                                                                                                                  \
        __shared__ __align__(16) half a[2][TM * LD], b[2][TK * LD];                                                    \
        Tensor t;                                                                                                      \
        auto copy_a = [&](half *to, int k) {                                                                           \
            for (int s = 0; s < 2; ++s) {                                                                              \
                const int e = threadIdx.x + s * 128;                                                                   \
                copy<16>(to + e / 4 * LD + e % 4 * 8, A + (size_t)(blockIdx.y * TM + e / 4) * K + k + e % 4 * 8);      \
            }                                                                                                          \
        };                                                                                                             \
        if (0 < K) copy_a(a[0], 0), write_b(b[0], read_b(B, N, 0), scale[threadIdx.x]);                                \
        commit();                                                                                                      \
        wait<0>();                                                                                                     \
        __syncthreads();                                                                                               \
        int buffer = 0;                                                                                                \
        for (int k = 0; k < K; k += TK) {                                                                              \
            const bool more = k + TK < K;                                                                              \
            uint4 v = {};                                                                                              \
            float f = 0.f;                                                                                             \
            if (more) {                                                                                                \
                copy_a(a[buffer ^ 1], k + TK);                                                                         \
                v = read_b(B, N, k + TK);                                                                              \
                EARLY;                                                                                                 \
            }                                                                                                          \
            commit();                                                                                                  \
            t.compute(a[buffer], b[buffer]);                                                                           \
            if (more) {                                                                                                \
                LATE;                                                                                                  \
                write_b(b[buffer ^ 1], v, f);                                                                          \
            }                                                                                                          \
            wait<0>();                                                                                                 \
            __syncthreads();                                                                                           \
            buffer ^= 1;                                                                                               \
        }                                                                                                              \
        t.finish(C, N);                                                                                                \
    }
MIXED(tensor_mixed, f = scale[(k / TK + 1) * 128 + threadIdx.x], )

// The scale is uniform: sm_90 moves it to a uniform register, and waits for it, before the math.
MIXED(tensor_uniform_scale, f = scale[k / TK + 1], )

// The scale is read where it is used, after the math.
MIXED(tensor_late_scale, , f = __ldcv(scale + (k / TK + 1) * 128 + threadIdx.x))

// ---- half2 math ----

#define HALF_PARAMS const half2 *__restrict__ A, const half2 *__restrict__ B, half2 *__restrict__ C, int n

extern "C" __global__ void half_original(HALF_PARAMS)
{
    __shared__ half2 a[16][16], b[16][16];
    half2 sum = {};
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    for (int k = 0; k < n; k += 16) {
        a[y][x] = A[row * n + k + x];
        b[y][x] = B[(k + y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum = __hfma2(a[y][j], b[j][x], sum);
        __syncthreads();
    }
    C[row * n + col] = sum;
}

extern "C" __global__ void half_prefetch(HALF_PARAMS)
{
    __shared__ half2 a[16][16], b[16][16];
    half2 sum = {}, ra = {}, rb = {};
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    if (0 < n) a[y][x] = A[row * n + x], b[y][x] = B[y * n + col];
    for (int k = 0; k < n; k += 16) {
        __syncthreads();
        if (k + 16 < n) ra = A[row * n + k + 16 + x], rb = B[(k + 16 + y) * n + col];
        for (int j = 0; j < 16; ++j) sum = __hfma2(a[y][j], b[j][x], sum);
        __syncthreads();
        if (k + 16 < n) a[y][x] = ra, b[y][x] = rb;
    }
    C[row * n + col] = sum;
}

// ---- branch: a tile in registers on its way while a sum is taken, always or only where the launch asks for it ----

template <bool ASKED>
__device__ void staged_sums(const float *__restrict__ in, float *__restrict__ out, int tiles, int asked)
{
    __shared__ float tile[2][128];
    const int tid = threadIdx.x;
    float sum = 0.0f;
    tile[0][tid] = in[tid];
    __syncthreads();
    for (int t = 0; t < tiles; ++t) {
        const float next = in[(t + 1) * 128 + tid];
        if (!ASKED || t < asked) {
#pragma unroll 64
            for (int i = 0; i < 128; ++i) sum = sum * 0.5f + tile[t & 1][i];
        }
        tile[(t + 1) & 1][tid] = next;
        __syncthreads();
#pragma unroll 64
        for (int i = 0; i < 128; ++i) sum = sum * 0.25f + tile[t & 1][i];
        __syncthreads();
    }
    out[blockIdx.x * 128 + tid] = sum;
}
extern "C" __global__ void __launch_bounds__(128) sums_staged(const float *in, float *out, int tiles, int asked)
{
    staged_sums<false>(in, out, tiles, asked);
}
extern "C" __global__ void __launch_bounds__(128) sums_asked(const float *in, float *out, int tiles, int asked)
{
    staged_sums<true>(in, out, tiles, asked);
}
