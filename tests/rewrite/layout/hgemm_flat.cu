// C[M,N] = A[M,K] * B[K,N] in fp16 with wmma, fp32 sums, 128x128x32 tile, eight warps of 64x32. M and N must be
// multiples of 128, K of 32. Rows of 64 and 256 bytes: every second and every row begins at the same bank.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define CHUNK(x) (reinterpret_cast<float4*>(&(x))[0])
#define CHUNK_OF(x) (reinterpret_cast<const float4*>(&(x))[0])

constexpr int TM = 128, TN = 128, TK = 32, F = 16;

__global__ void __launch_bounds__(256)
hgemm_flat(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(32) half at[TM][TK], bt[TK][TN];

    const int t = threadIdx.x, warp = t / 32;
    const int wm = warp / 4 * 64, wn = warp % 4 * 32;
    const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

    wmma::fragment<wmma::accumulator, F, F, F, float> acc[4][2];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += TK) {
        for (int s = 0; s < 2; ++s) {
            const int e = t + s * 256;
            const int ar = e >> 2, ac = (e & 3) << 3, br = e >> 4, bc = (e & 15) << 3;
            CHUNK(at[ar][ac]) = CHUNK_OF(A[(size_t)(m0 + ar) * K + k0 + ac]);
            CHUNK(bt[br][bc]) = CHUNK_OF(B[(size_t)(k0 + br) * N + n0 + bc]);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < TK; kk += F) {
            wmma::fragment<wmma::matrix_a, F, F, F, half, wmma::row_major> a[4];
            wmma::fragment<wmma::matrix_b, F, F, F, half, wmma::row_major> b[2];
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                wmma::load_matrix_sync(a[i], &at[wm + i * F][kk], TK);
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                wmma::load_matrix_sync(b[j], bt[kk] + wn + j * F, TN);
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(&C[(size_t)(m0 + wm + i * F) * N + n0 + wn + j * F], acc[i][j], N,
                                    wmma::mem_row_major);
}
