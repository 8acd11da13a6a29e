#include <cuda/pipeline>
constexpr int STAGES = 3, RUN = 512;

__global__ void __launch_bounds__(128) smooth(const float4* in, float4* out, int tiles)
{
    __shared__ float4 buffer[STAGES][RUN];
    auto pipe = cuda::make_pipeline();
    const int tid = threadIdx.x;
    int load = 0;
    for (; load < STAGES - 1; ++load) {
        pipe.producer_acquire();
        if (load < tiles)
            for (int i = 0; i < RUN / 128; ++i)
                cuda::memcpy_async(&buffer[load][tid + i * 128], in + load * RUN + tid + i * 128, sizeof(float4), pipe);
        pipe.producer_commit();
    }
    for (int t = 0; t < tiles; ++t, ++load) {
        pipe.consumer_wait();
        __syncthreads();
        pipe.producer_acquire();
        if (load < tiles)
            for (int i = 0; i < RUN / 128; ++i)
                cuda::memcpy_async(&buffer[load % STAGES][tid + i * 128], in + load * RUN + tid + i * 128, sizeof(float4), pipe);
        pipe.producer_commit();
        for (int i = 0; i < RUN / 128; ++i)
            out[t * RUN + tid + i * 128].x = buffer[t % STAGES][(tid + i * 128 + 1) % RUN].x;
        pipe.consumer_release();
    }
    cuda::pipeline_consumer_wait_prior<0>(pipe);
}
