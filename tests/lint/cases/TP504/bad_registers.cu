// The first tile is stored and read without a barrier.
#define TS 32
__global__ void __launch_bounds__(1024) square(const float* A, const float* B, float* C, int n)
{
    __shared__ float sa[2][TS][TS];
    __shared__ float sb[2][TS][TS];
    const int tx = threadIdx.x % TS, ty = threadIdx.x / TS;
    const float* a = A + (blockIdx.y * TS + ty) * n + tx;
    const float* b = B + ty * n + blockIdx.x * TS + tx;
    const int tiles = n / TS;
    float acc = 0.f;

    sa[0][ty][tx] = a[0];
    sb[0][ty][tx] = b[0];

    for (int t = 0; t < tiles - 1; ++t) {
        const int cur = t & 1, nxt = cur ^ 1;
        const float ra = a[(t + 1) * TS];
        const float rb = b[(t + 1) * TS * n];
        for (int k = 0; k < TS; ++k)
            acc += sa[cur][ty][k] * sb[cur][k][tx];
        sa[nxt][ty][tx] = ra;
        sb[nxt][ty][tx] = rb;
        __syncthreads();
    }
    const int last = (tiles - 1) & 1;
    for (int k = 0; k < TS; ++k)
        acc += sa[last][ty][k] * sb[last][k][tx];
    C[(blockIdx.y * TS + ty) * n + blockIdx.x * TS + tx] = acc;
}
