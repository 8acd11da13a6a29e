// Many small products C[b] = A[b] * B[b] of 32 rows and 32 columns each; a block works through several of them.
// Shows: tile loop inside a grid-stride batch loop, pointers bumped inside the load phase, block of 32x8 with
// four rows per thread, countdown tile counter, result stored in the outer loop (no __restrict__ on C).
#define S 32

__global__ void batch_loop_gemm(const float* __restrict__ A, const float* __restrict__ B, float* C,
                                int batch, int tiles)
{
    constexpr int TP_STAGES = 2;
    __shared__ float at_ring[TP_STAGES][S][S];
    __shared__ float bt_ring[TP_STAGES][S][S];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int K = tiles * S;

    for (int b = blockIdx.x; b < batch; b += gridDim.x) {
        const float* pa = A + (size_t)b * S * K + ty * K + tx;
        const float* pb = B + (size_t)b * K * S + ty * S + tx;
        float acc[4] = {0.f, 0.f, 0.f, 0.f};

        int left_next = tiles;
        float tp_A0[4];
        float tp_B1[4];
        auto tp_fetch = [&]() {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                tp_A0[i] = pa[8 * i * K];
                tp_B1[i] = *pb;
                pb += 8 * S;
            }
        };
        auto tp_store = [&](int tp_stage) {
            auto& at = at_ring[tp_stage];
            auto& bt = bt_ring[tp_stage];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                at[ty + 8 * i][tx] = tp_A0[i];
                bt[ty + 8 * i][tx] = tp_B1[i];
            }
        };
        auto tp_advance = [&] {
            pa += S;
            --left_next;
        };
        // prologue: tile 0
        if (left_next > 0) {
            tp_fetch();
            tp_store(0);
            tp_advance();
        }
        __syncthreads();
        // main loop: each turn but the last loads the next tile while it computes
        int tp_stage = 0;
        for (int left = tiles; left > 0; --left) {
            const bool tp_next = left_next > 0;
            if (tp_next) {
                tp_fetch();
            }
            auto& at = at_ring[tp_stage];
            auto& bt = bt_ring[tp_stage];

#pragma unroll
            for (int k = 0; k < S; ++k) {
                const float v = bt[k][tx];
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    acc[i] += at[ty + 8 * i][k] * v;
            }

            if (tp_next) {
                tp_store(tp_stage ^ 1);
                tp_advance();
            }
            __syncthreads();  // publishes the next tile and frees this one
            tp_stage ^= 1;
        }

        for (int i = 0; i < 4; ++i)
            C[(size_t)b * S * S + (ty + 8 * i) * S + tx] = acc[i];
    }
}
