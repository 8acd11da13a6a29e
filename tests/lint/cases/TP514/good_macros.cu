#include <cuda_fp16.h>
#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

template <int BK = 32, int STAGES = 4>
__global__ void hgemv(const half* A, const half* x, float* y, int M, int K)
{
    __shared__ __align__(16) half tile[STAGES][64][BK];
    const int row = threadIdx.x / 4, col = threadIdx.x % 4 * 8;
    float sum = 0.f;
    int fetch = 0;

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (fetch * BK < K) {
            unsigned at = __cvta_generic_to_shared(&tile[s][row][col]);
            CP_ASYNC_CG(at, A + row * K + fetch * BK + col, 16);
        }
        CP_ASYNC_COMMIT();
        ++fetch;
    }
    int read = 0, write = STAGES - 1;
    for (int k = 0; k < K; k += BK) {
        CP_ASYNC_WAIT(STAGES - 2);
        __syncthreads();
        if (fetch * BK < K) {
            unsigned at = __cvta_generic_to_shared(&tile[write][row][col]);
            CP_ASYNC_CG(at, A + row * K + fetch * BK + col, 16);
        }
        CP_ASYNC_COMMIT();
        ++fetch;
        for (int i = 0; i < BK; ++i)
            sum += __half2float(tile[read][threadIdx.x % 64][i]) * __half2float(x[k + i]);
        read = (read + 1) % STAGES;
        write = (write + 1) % STAGES;
    }
    CP_ASYNC_WAIT(0);
    y[threadIdx.x] = sum;
}

void launch(const half* A, const half* x, float* y, int M, int K)
{
    hgemv<32, 4><<<M / 64, 256>>>(A, x, y, M, K);
}
