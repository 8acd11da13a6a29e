// C[M,N] = A[M,K] * B[K,N] in fp16 with mma.sync m16n8k16, fp32 sums, 64x64x32 tile, four warps. M and N must be
// multiples of 64, K of 32. Addresses go to ldmatrix through a macro, a helper and a pointer.
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
    __shared__ __align__(16) half at[TM][TK];
    __shared__ __align__(16) half bt[TK][TN];

    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

    float acc[2][4][4] = {};

    for (int k0 = 0; k0 < K; k0 += TK) {
        for (int e = t; e < TM * TK / 8; e += 128)
            *reinterpret_cast<uint4*>(&at[e / 4][e % 4 * 8]) =
                *reinterpret_cast<const uint4*>(&A[(size_t)(m0 + e / 4) * K + k0 + e % 4 * 8]);
        for (int e = t; e < TK * TN / 8; e += 128)
            *(uint4*)(&bt[e / 8][0] + e % 8 * 8) =
                *reinterpret_cast<const uint4*>(&B[(size_t)(k0 + e / 8) * N + n0 + e % 8 * 8]);
        __syncthreads();

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
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int h = 0; h < 4; ++h) {
                const int m = m0 + wm + i * 16 + (lane >> 2) + (h >> 1) * 8;
                C[(size_t)m * N + n0 + wn + j * 8 + (lane & 3) * 2 + (h & 1)] = acc[i][j][h];
            }
}
