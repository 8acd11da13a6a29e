#include <cuda_pipeline.h>
constexpr int ROWS = 192, WIDTH = 64, STAGES = 2;
constexpr int STAGE = ROWS * WIDTH;

__global__ void __launch_bounds__(512) stream(const float* in, float* out, int tiles)
{
    extern __shared__ float pool[];
    const int tid = threadIdx.x;
    auto load = [&](int s, int t) {
        for (int i = tid * 4; i < STAGE; i += 512 * 4)
            __pipeline_memcpy_async(&pool[s * STAGE + i], &in[t * STAGE + i], 16);
    };
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles)
            load(s, s);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; ++t) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        if (t + STAGES - 1 < tiles)
            load((t + STAGES - 1) % STAGES, t + STAGES - 1);
        __pipeline_commit();
        for (int i = tid; i < STAGE; i += 512)
            out[t * STAGE + i] = 2.f * pool[t % STAGES * STAGE + STAGE - 1 - i];
    }
    __pipeline_wait_prior(0);
}

void launch(const float* in, float* out, int tiles)
{
    stream<<<108, 512, STAGES * STAGE * sizeof(float)>>>(in, out, tiles);
}
