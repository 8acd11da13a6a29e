// Convolution as implicit GEMM (NCHW, any filter size, stride and padding): rows are filters, columns are output
// pixels, depth is C*R*S. Shows: gather addresses made from / and % of the depth and pixel index, a filter tile
// scattered transposed, ternary masks on both tiles, a running depth offset in a while loop.
#define FT 32                                          // filters per block
#define PT 64                                          // pixels per block
#define DT 16                                          // depth per tile

__global__ void __launch_bounds__(128)
conv_igemm(const float* __restrict__ img, const float* __restrict__ flt, float* __restrict__ out,
           int C, int H, int W, int K, int R, int S, int OH, int OW, int stride, int pad, int pixels)
{
    __shared__ float ft[DT][FT + 1];
    __shared__ __align__(16) float pt[DT][PT];

    const int tid = threadIdx.x;
    const int f0 = blockIdx.y * FT, p0 = blockIdx.x * PT;
    const int depth = C * R * S;
    const int tf = tid / 16 * 4, tp = tid % 16 * 4;

    // the pixel column this thread gathers is the same in every tile
    const int pc = tid % PT;
    const int pix = p0 + pc;
    const int b = pix / (OH * OW);
    const int iy0 = pix / OW % OH * stride - pad;
    const int ix0 = pix % OW * stride - pad;

    float acc[4][4] = {};
    int d0 = 0;

    auto d0_next = d0;
    float tp_flt0[4];
    float tp_img1[8];
    auto tp_fetch = [&]() {
        auto& d0 = d0_next;
        #pragma unroll
        for (int tp_i = 0; tp_i < 4; ++tp_i) {
            const int i = tid + tp_i * 128;
            const int f = i / DT, d = i % DT;
            tp_flt0[tp_i] = (f0 + f < K && d0 + d < depth) ? flt[(f0 + f) * depth + d0 + d] : 0.f;
        }
        #pragma unroll
        for (int tp_d = 0; tp_d < 8; ++tp_d) {
            const int d = tid / PT + tp_d * 2;
            const int c = (d0 + d) / (R * S), rs = (d0 + d) % (R * S);
            const int iy = iy0 + rs / S, ix = ix0 + rs % S;
            const bool in = pix < pixels && d0 + d < depth && iy >= 0 && iy < H && ix >= 0 && ix < W;
            tp_img1[tp_d] = in ? img[((b * C + c) * H + iy) * W + ix] : 0.f;
        }
    };
    auto tp_store = [&]() {
        #pragma unroll
        for (int tp_i = 0; tp_i < 4; ++tp_i) {
            const int i = tid + tp_i * 128;
            const int f = i / DT, d = i % DT;
            ft[d][f] = tp_flt0[tp_i];
        }
        #pragma unroll
        for (int tp_d = 0; tp_d < 8; ++tp_d) {
            const int d = tid / PT + tp_d * 2;
            pt[d][pc] = tp_img1[tp_d];
        }
    };
    auto tp_advance = [&] {
        auto& d0 = d0_next;
        d0 += DT;
    };
    // prologue: tile 0
    if (d0_next < depth) {
        tp_fetch();
        tp_store();
        tp_advance();
    }
    // main loop: each turn but the last loads the next tile while it computes
    while (d0 < depth) {
        __syncthreads();  // publishes the tile
        const bool tp_next = d0_next < depth;
        if (tp_next) {
            tp_fetch();
        }

#pragma unroll
        for (int d = 0; d < DT; ++d)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += ft[d][tf + i] * pt[d][tp + j];
        d0 += DT;

        __syncthreads();  // the tile is consumed
        if (tp_next) {
            tp_store();
            tp_advance();
        }
    }

    for (int j = 0; j < 4; ++j) {
        const int q = p0 + tp + j;
        for (int i = 0; i < 4 && q < pixels; ++i)
            if (f0 + tf + i < K)
                out[(size_t)(q / (OH * OW) * K + f0 + tf + i) * OH * OW + q % (OH * OW)] = acc[i][j];
    }
}
