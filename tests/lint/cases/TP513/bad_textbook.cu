// The wait stands directly behind the commit.
constexpr int BM = 64, BN = 64, BK = 16, THREADS = 256;

__device__ __forceinline__ void cp_async16(void* to, const void* from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ void load_tile(float (*dst)[BK], const float* src, int ld, int k0)
{
    for (int i = threadIdx.x; i < BM * BK / 4; i += THREADS)
        cp_async16(&dst[i / 4][i % 4 * 4], src + (i / 4) * ld + k0 + i % 4 * 4);
}

__global__ void __launch_bounds__(THREADS)
gemm_nt(const float* A, const float* B, float* C, int N, int K)
{
    __shared__ float As[2][BM][BK];
    __shared__ float Bs[2][BN][BK];
    const int r = threadIdx.x / 16 * 4, c = threadIdx.x % 16 * 4;
    float acc[4][4] = {};
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN * K;

    load_tile(As[0], A, K, 0);
    load_tile(Bs[0], B, K, 0);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();

    int buf = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        if (k0 + BK < K) {
            load_tile(As[buf ^ 1], A, K, k0 + BK);
            load_tile(Bs[buf ^ 1], B, K, k0 + BK);
            cp_async_commit();
            cp_async_wait<0>();
        }
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += As[buf][r + i][k] * Bs[buf][c + j][k];
        cp_async_wait<0>();
        __syncthreads();
        buf ^= 1;
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j] = acc[i][j];
}
