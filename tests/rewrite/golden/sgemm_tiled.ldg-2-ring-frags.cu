// C[M,N] = A[M,K] * B[K,N] in fp32. Block tile 128x128x8, 256 threads, 8x8 outputs per thread.
// M and N must be multiples of 128, K of 8, and the pointers 16-byte aligned.
#include <cuda_runtime.h>

constexpr int BM = 128, BN = 128, BK = 8;
constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS)
sgemm_tiled(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
            int M, int N, int K)
{
    constexpr int TP_STAGES = 2;
    __shared__ __align__(16) float As_ring[TP_STAGES][BK][BM];         // transposed
    __shared__ __align__(16) float Bs_ring[TP_STAGES][BK][BN];

    const int tid = threadIdx.x;
    const int tx = tid % 16, ty = tid / 16;
    const int a_row = tid / 2, a_col = tid % 2 * 4;
    const int b_row = tid / 32, b_col = tid % 32 * 4;

    A += (size_t)(blockIdx.y * BM + a_row) * K + a_col;
    B += (size_t)b_row * N + blockIdx.x * BN + b_col;
    C += (size_t)blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[8][8] = {};

    int k0_next = 0;
    float4 tp_A0;
    float4 tp_B1;
    auto tp_fetch = [&]() {
        tp_A0 = *reinterpret_cast<const float4*>(A);
        tp_B1 = *reinterpret_cast<const float4*>(B);
    };
    auto tp_store = [&](int tp_stage) {
        auto& As = As_ring[tp_stage];
        auto& Bs = Bs_ring[tp_stage];
        const float4 a4 = tp_A0;
        As[a_col + 0][a_row] = a4.x;
        As[a_col + 1][a_row] = a4.y;
        As[a_col + 2][a_row] = a4.z;
        As[a_col + 3][a_row] = a4.w;
        *reinterpret_cast<float4*>(&Bs[b_row][b_col]) = tp_B1;
    };
    auto tp_advance = [&] {
        A += BK;
        B += (size_t)BK * N;
        k0_next += BK;
    };
    // fragments: one slot is multiplied while the other one is filled
    float a_slots[2][8], b_slots[2][8];
    auto tp_fragments = [&](int tp_stage, int tp_slot, int k) {
        auto& As = As_ring[tp_stage];
        auto& Bs = Bs_ring[tp_stage];
        auto& a = a_slots[tp_slot];
        auto& b = b_slots[tp_slot];
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
            *reinterpret_cast<float4*>(&a[i]) = *reinterpret_cast<const float4*>(&As[k][ty * 8 + i]);
            *reinterpret_cast<float4*>(&b[i]) = *reinterpret_cast<const float4*>(&Bs[k][tx * 8 + i]);
        }
    };
    // prologue: tile 0
    const bool tp_some = k0_next < K;
    if (tp_some) {
        tp_fetch();
        tp_store(0);
        tp_advance();
    }
    __syncthreads();
    if (tp_some)
        tp_fragments(0, 0, 0);
    // main loop: each turn but the last loads the next tile while it computes
    int tp_stage = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool tp_next = k0_next < K;
        if (tp_next) {
            tp_fetch();
        }

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k + 1 < BK) {
                tp_fragments(tp_stage, (k + 1) % 2, k + 1);
            } else {  // the first group of the next tile
                if (tp_next) {
                    tp_store(tp_stage ^ 1);
                    tp_advance();
                }
                __syncthreads();  // publishes the next tile and frees this one
                tp_stage ^= tp_next;
                tp_fragments(tp_stage, 0, 0);
            }
            auto& a = a_slots[k % 2];
            auto& b = b_slots[k % 2];
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j)
                    acc[i][j] += a[i] * b[j];
        }
    }

    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<float4*>(&C[(size_t)(ty * 8 + i) * N + tx * 8 + j]) =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}

cudaError_t sgemm(const float* A, const float* B, float* C, int M, int N, int K, cudaStream_t stream)
{
    if (M % BM || N % BN || K % BK)
        return cudaErrorInvalidValue;
    sgemm_tiled<<<dim3(N / BN, M / BM), THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
