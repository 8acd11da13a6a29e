// y = a * x for n floats, n >= 0. Each block streams tiles of 1024 through shared memory: scalar loads, so
// that x may start anywhere, and 16-byte stores to y, which must be 16-byte aligned.
#include <cuda_runtime.h>

constexpr int TILE = 1024;
constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS)
stream_scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    __shared__ __align__(16) float tile[TILE];

    for (int base = blockIdx.x * TILE; base < n; base += gridDim.x * TILE) {
        for (int i = threadIdx.x; i < TILE; i += THREADS)
            tile[i] = base + i < n ? x[base + i] : 0.0f;
        __syncthreads();

        const int at = threadIdx.x * 4;
        const float4 v = *reinterpret_cast<const float4*>(&tile[at]);
        if (base + at + 3 < n) {
            *reinterpret_cast<float4*>(&y[base + at]) = make_float4(a * v.x, a * v.y, a * v.z, a * v.w);
        } else {
            if (base + at + 0 < n) y[base + at + 0] = a * v.x;
            if (base + at + 1 < n) y[base + at + 1] = a * v.y;
            if (base + at + 2 < n) y[base + at + 2] = a * v.z;
        }
        __syncthreads();
    }
}

cudaError_t scale(const float* x, float* y, float a, int n, int blocks, cudaStream_t stream)
{
    stream_scale<<<blocks, THREADS, 0, stream>>>(x, y, a, n);
    return cudaGetLastError();
}
