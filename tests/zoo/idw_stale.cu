// Inverse-distance weighting of scattered samples; the last tile is filled in part and read in full, so that its rest
// counts samples of the tile before once more, as the original had it.
// Shows: a stale rest that is read, where only one buffer keeps the result: register prefetch is the one legal way.
#define HELD 128                                       // samples per tile, one per thread

__global__ void idw_stale(const float2* __restrict__ at, const float* __restrict__ value, int samples,
                          const float2* __restrict__ where, float* __restrict__ out, int n)
{
    __shared__ float px[HELD];
    __shared__ float py[HELD];
    __shared__ float pv[HELD];

    const int me = blockIdx.x * blockDim.x + threadIdx.x;
    const float2 here = where[min(me, n - 1)];
    float up = 0.f, down = 0.f;

    for (int first = 0; first < samples; first += HELD) {
        const int left = min(HELD, samples - first);
        if (threadIdx.x < left) {
            px[threadIdx.x] = at[first + threadIdx.x].x;
            py[threadIdx.x] = at[first + threadIdx.x].y;
            pv[threadIdx.x] = value[first + threadIdx.x];
        }
        __syncthreads();

        for (int i = 0; i < HELD; ++i) {
            const float dx = here.x - px[i], dy = here.y - py[i];
            const float weight = 1.f / (dx * dx + dy * dy + 1.f);
            up += weight * pv[i];
            down += weight;
        }
        __syncthreads();
    }
    if (me < n) out[me] = up / down;
}
