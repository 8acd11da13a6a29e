// C[M,N] = A[M,K] * B[N,K]^T: fp16 in and out, fp32 sums, on the tensor cores through ldmatrix and mma.sync.
// Block tile 128x256x32, eight warps of 64x64 each. Any M and any even N; K must be a multiple of 8 and the
// pointers 16-byte aligned.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int BM = 128, BN = 256, BK = 32;
constexpr int THREADS = 256;
constexpr int WM = 64, WN = 64;                        // rows and columns of C per warp
constexpr int VEC = 8;                                 // half per 16-byte chunk
constexpr int GROUP = 16;                              // rows of tiles that share their columns of B in L2

// Offset of a 16-byte chunk of a row. The chunks of neighbouring rows are permuted, so that the eight rows that
// one ldmatrix reads lie in different banks.
__device__ __forceinline__ int slot(int row, int chunk) { return row * BK + (chunk ^ (row >> 1 & 3)) * VEC; }

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const half* p)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void __launch_bounds__(THREADS)
hgemm_mma(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(128) half As[BM * BK];
    __shared__ __align__(128) half Bs[BN * BK];

    const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP;
    const int rows = min(GROUP, tiles_m - first);
    const int within = blockIdx.x % (GROUP * tiles_n);
    const int block_m = (first + within % rows) * BM, block_n = within / rows * BN;

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;

    float acc[WM / 16][WN / 8][4] = {};

    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll
        for (int s = 0; s < BM * BK / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BK / VEC), chunk = i % (BK / VEC);
            const bool in = block_m + row < M && k0 + chunk * VEC < K;
            *reinterpret_cast<uint4*>(&As[slot(row, chunk)]) =
                in ? *reinterpret_cast<const uint4*>(&A[(size_t)(block_m + row) * K + k0 + chunk * VEC])
                   : make_uint4(0, 0, 0, 0);
        }
        #pragma unroll
        for (int s = 0; s < BN * BK / VEC / THREADS; ++s) {
            const int i = tid + s * THREADS;
            const int row = i / (BK / VEC), chunk = i % (BK / VEC);
            const bool in = block_n + row < N && k0 + chunk * VEC < K;
            *reinterpret_cast<uint4*>(&Bs[slot(row, chunk)]) =
                in ? *reinterpret_cast<const uint4*>(&B[(size_t)(block_n + row) * K + k0 + chunk * VEC])
                   : make_uint4(0, 0, 0, 0);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < BK / 16; ++kk) {
            unsigned a[WM / 16][4], b[WN / 16][4];
            #pragma unroll
            for (int i = 0; i < WM / 16; ++i)
                load_matrices(a[i], &As[slot(warp_m + 16 * i + lane % 16, kk * 2 + lane / 16)]);
            #pragma unroll
            for (int j = 0; j < WN / 16; ++j)
                load_matrices(b[j], &Bs[slot(warp_n + 16 * j + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2)]);
            #pragma unroll
            for (int i = 0; i < WM / 16; ++i)
                #pragma unroll
                for (int j = 0; j < WN / 8; ++j)
                    multiply(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < WM / 16; ++i)
        #pragma unroll
        for (int j = 0; j < WN / 8; ++j)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = block_m + warp_m + 16 * i + 8 * h + lane / 4;
                const int column = block_n + warp_n + 8 * j + lane % 4 * 2;
                if (row < M && column < N)
                    *reinterpret_cast<half2*>(&C[(size_t)row * N + column]) =
                        __floats2half2_rn(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
            }
}

cudaError_t hgemm(const half* A, const half* B, half* C, int M, int N, int K, cudaStream_t stream)
{
    if (N % 2 || K % VEC)
        return cudaErrorInvalidValue;
    const int tiles = (M + BM - 1) / BM * ((N + BN - 1) / BN);
    hgemm_mma<<<tiles, THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
