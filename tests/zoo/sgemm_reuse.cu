// C = A * B for row-major floats with one set of registers: `a4` and `b4` carry the tile in, then feed the products.
// Shows: variables that load and computation take in turn, statement macros without semicolons, a macro that has the
// array's name, the transposing store of A, pointers bumped in the load phase.
#define EDGE 64
#define DEPTH 16
#define As(k, m) As[(k) * EDGE + (m)]
#define Bs(k, n) Bs[(k) * EDGE + (n)]
#define VLOAD(v, p) v = *((const float4*)(p));
#define AXPY(r, v, f) r.x += v.x * f; r.y += v.y * f; r.z += v.z * f; r.w += v.w * f;

__global__ void __launch_bounds__(256) sgemm_reuse(int M, int N, int K, const float* __restrict__ A,
                                                   const float* __restrict__ B, float* __restrict__ C)
{
    __shared__ float4 held[2 * DEPTH * EDGE / 4];
    float* As = (float*)held;
    float* Bs = (float*)(held + DEPTH * EDGE / 4);
    const int t = threadIdx.x;
    const int am = t >> 2, ak = (t & 3) << 2;           // one float4 of A per thread: row am, four columns
    const int bk = t >> 4, bn = (t & 15) << 2;          // one float4 of B per thread
    const int cm = (t >> 4) << 2, cn = (t & 15) << 2;   // a 4 x 4 patch of C per thread
    A += (size_t)(blockIdx.y * EDGE + am) * K + ak;
    B += (size_t)bk * N + blockIdx.x * EDGE + bn;

    float4 a4, b4, r[4];
    for (int i = 0; i < 4; ++i) r[i] = make_float4(0.f, 0.f, 0.f, 0.f);

    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        VLOAD(a4, A)
        VLOAD(b4, B)
        As(ak, am) = a4.x;
        As(ak + 1, am) = a4.y;
        As(ak + 2, am) = a4.z;
        As(ak + 3, am) = a4.w;
        *((float4*)&Bs(bk, bn)) = b4;
        A += DEPTH;
        B += (size_t)DEPTH * N;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            VLOAD(a4, &As(k, cm))
            VLOAD(b4, &Bs(k, cn))
            AXPY(r[0], b4, a4.x)
            AXPY(r[1], b4, a4.y)
            AXPY(r[2], b4, a4.z)
            AXPY(r[3], b4, a4.w)
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *((float4*)&C[(size_t)(blockIdx.y * EDGE + cm + i) * N + blockIdx.x * EDGE + cn]) = r[i];
}
