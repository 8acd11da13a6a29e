// C = A * B^T, half in, float shared tiles and float out, 32x32x16 tile with 64 threads and 4x4 outputs each.
// Shows: half2 loads widened to float on the way in (half -> float conversion), both tiles stored transposed and
// padded by one, the load in a __device__ helper taking plain pointers, rows clamped at the edge.
#include <cuda_fp16.h>

static const int kDepth = 16;
static const int kEdge = 32;
static const int kPitch = kEdge + 1;

// tile[k][row] <- src[row][k], rows beyond `rows` repeat the last one
__device__ void widen_tile(float* tile, const __half* src, int ld, int row0, int rows, int tid)
{
    for (int i = tid; i < kEdge * kDepth / 2; i += 64) {
        const int r = i / (kDepth / 2);
        const int k = i % (kDepth / 2) * 2;
        const int row = min(row0 + r, rows - 1);
        const __half2 pair = *reinterpret_cast<const __half2*>(src + (size_t)row * ld + k);
        const float2 wide = __half22float2(pair);
        tile[k * kPitch + r] = wide.x;
        tile[(k + 1) * kPitch + r] = wide.y;
    }
}

__global__ void hgemm_widen(const __half* A, const __half* B, float* C, int M, int N, int K)
{
    constexpr int TP_STAGES = 2;
    __shared__ float ta_ring[TP_STAGES][kDepth * kPitch];
    __shared__ float tb_ring[TP_STAGES][kDepth * kPitch];

    const int tid = threadIdx.y * 8 + threadIdx.x;
    const int row0 = blockIdx.y * kEdge, col0 = blockIdx.x * kEdge;

    float acc[4][4];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            acc[i][j] = 0.f;

    int k0_next = 0;
    __half2 tp_A0[4];
    __half2 tp_B1[4];
    auto tp_fetch = [&]() {
        auto& ta = ta_ring[0];
        auto& tb = tb_ring[0];
        auto& k0 = k0_next;
        [&](float* tile, const __half* src, int ld, int row0, int rows, int tid) {
            #pragma unroll
            for (int tp_i = 0; tp_i < 4; ++tp_i) {
                const int i = tid + tp_i * 64;
                if (i >= kEdge * kDepth / 2) break;
                const int r = i / (kDepth / 2);
                const int k = i % (kDepth / 2) * 2;
                const int row = min(row0 + r, rows - 1);
                tp_A0[tp_i] = *reinterpret_cast<const __half2*>(src + (size_t)row * ld + k);
            }
        }(ta, A + k0, K, row0, M, tid);
        [&](float* tile, const __half* src, int ld, int row0, int rows, int tid) {
            #pragma unroll
            for (int tp_i = 0; tp_i < 4; ++tp_i) {
                const int i = tid + tp_i * 64;
                if (i >= kEdge * kDepth / 2) break;
                const int r = i / (kDepth / 2);
                const int k = i % (kDepth / 2) * 2;
                const int row = min(row0 + r, rows - 1);
                tp_B1[tp_i] = *reinterpret_cast<const __half2*>(src + (size_t)row * ld + k);
            }
        }(tb, B + k0, K, col0, N, tid);
    };
    auto tp_store = [&](int tp_stage) {
        auto& ta = ta_ring[tp_stage];
        auto& tb = tb_ring[tp_stage];
        auto& k0 = k0_next;
        [&](float* tile, const __half* src, int ld, int row0, int rows, int tid) {
            #pragma unroll
            for (int tp_i = 0; tp_i < 4; ++tp_i) {
                const int i = tid + tp_i * 64;
                if (i >= kEdge * kDepth / 2) break;
                const int r = i / (kDepth / 2);
                const int k = i % (kDepth / 2) * 2;
                const __half2 pair = tp_A0[tp_i];
                const float2 wide = __half22float2(pair);
                tile[k * kPitch + r] = wide.x;
                tile[(k + 1) * kPitch + r] = wide.y;
            }
        }(ta, A + k0, K, row0, M, tid);
        [&](float* tile, const __half* src, int ld, int row0, int rows, int tid) {
            #pragma unroll
            for (int tp_i = 0; tp_i < 4; ++tp_i) {
                const int i = tid + tp_i * 64;
                if (i >= kEdge * kDepth / 2) break;
                const int r = i / (kDepth / 2);
                const int k = i % (kDepth / 2) * 2;
                const __half2 pair = tp_B1[tp_i];
                const float2 wide = __half22float2(pair);
                tile[k * kPitch + r] = wide.x;
                tile[(k + 1) * kPitch + r] = wide.y;
            }
        }(tb, B + k0, K, col0, N, tid);
    };
    auto tp_advance = [&] {
        k0_next += kDepth;
    };
    // prologue: tile 0
    if (k0_next < K) {
        tp_fetch();
        tp_store(0);
        tp_advance();
    }
    __syncthreads();
    int k0 = 0;
    auto tp_compute = [&](int tp_stage) {
        auto& ta = ta_ring[tp_stage];
        auto& tb = tb_ring[tp_stage];
        for (int k = 0; k < kDepth; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) {
                a[i] = ta[k * kPitch + threadIdx.y + 8 * i];
                b[i] = tb[k * kPitch + threadIdx.x + 8 * i];
            }
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += a[i] * b[j];
        }
    };
    // main loop: tiles - 1 turns, each loads the next tile while it computes
    int tp_stage = 0;
    for (; k0_next < K; k0 += kDepth) {
        tp_fetch();
        tp_compute(tp_stage);
        tp_store(tp_stage ^ 1);
        tp_advance();
        __syncthreads();  // publishes the next tile and frees this one
        tp_stage ^= 1;
    }
    // epilogue: the last tile
    if (k0 < K)
        tp_compute(tp_stage);

    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int row = row0 + threadIdx.y + 8 * i, col = col0 + threadIdx.x + 8 * j;
            if (row < M && col < N)
                C[(size_t)row * N + col] = acc[i][j];
        }
}
