// C = A * B, 128x64 tile, 8x4 outputs per thread by outer products; M % 128 == 0, N % 64 == 0, K % 8 == 0.
// Shows: vector-access and index macros, A read as float4 and scattered transposed (.x .y .z .w),
// only half of the threads load B, pointers bumped right after the load barrier.
// ---- tilepipe helpers ----
#ifndef TILEPIPE_COPY
#define TILEPIPE_COPY
// Copies one element to shared memory asynchronously. 16 bytes bypass L1 (.cg); 4 and 8 bytes go through it (.ca).
template <class Element>
__device__ __forceinline__ void tp_copy(Element* to, const Element* from)
{
    static_assert(sizeof(Element) == 4 || sizeof(Element) == 8 || sizeof(Element) == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (sizeof(Element) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(Element)) : "memory");
}
#endif
#ifndef TILEPIPE_GROUPS
#define TILEPIPE_GROUPS
// Ends a group of copies. Groups are counted by each thread for itself; an empty group counts too.
__device__ __forceinline__ void tp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the N newest groups of this thread are in flight.
template <int N>
__device__ __forceinline__ void tp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#endif

#define AT(r, c, ld)  ((r) * (ld) + (c))
#define LOAD4(v)      (*reinterpret_cast<const float4*>(&(v)))
#define STORE4(v)     (*reinterpret_cast<float4*>(&(v)))

constexpr int BM = 128, BN = 64, BK = 8;
constexpr int TM = 8, TN = 4;

__global__ void __launch_bounds__(256)
sgemm_outer84(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
              int N, int K)
{
    constexpr int TP_STAGES = 2;
    __shared__ __align__(16) float sA_ring[TP_STAGES][BK][BM + 4];     // transposed
    __shared__ __align__(16) float sB_ring[TP_STAGES][BK][BN];

    const int tid = threadIdx.x;
    const int aRow = tid >> 1, aCol = (tid & 1) << 2;  // 128 rows x 2 float4
    const int bRow = tid >> 4, bCol = (tid & 15) << 2; //   8 rows x 16 float4
    const int ty = tid / (BN / TN), tx = tid % (BN / TN);

    A += AT(blockIdx.y * BM, 0, K);
    B += blockIdx.x * BN;
    C += AT(blockIdx.y * BM, blockIdx.x * BN, N);

    float acc[TM][TN] = {{0.f}};
    __align__(16) float a[TM], b[TN];

    __shared__ float4 tp_A0_ring[TP_STAGES][256];  // each thread's own
    const unsigned tp_thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int kt_next = 0;
    int kt_after = 0;
    auto tp_load = [&](int tp_stage) {
        auto& sB = sB_ring[tp_stage];
        tp_copy(&tp_A0_ring[tp_stage][tp_thread], &LOAD4(A[AT(aRow, aCol, K)]));
        if (tid < 128)
            tp_copy(&STORE4(sB[bRow][bCol]), &LOAD4(B[AT(bRow, bCol, N)]));
        A += BK;
        B += BK * N;
        kt_next += BK;
    };
    auto tp_store = [&](int tp_stage) {
        auto& sA = sA_ring[tp_stage];
        const float4 v = tp_A0_ring[tp_stage][tp_thread];
        sA[aCol + 0][aRow] = v.x;
        sA[aCol + 1][aRow] = v.y;
        sA[aCol + 2][aRow] = v.z;
        sA[aCol + 3][aRow] = v.w;
        kt_after += BK;
    };
    // prologue: tiles 0 .. TP_STAGES - 2 in flight; a group per stage, even an empty one, keeps the wait constant
    for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {
        if (kt_next < K)
            tp_load(tp_s);
        tp_commit();
    }
    tp_wait<TP_STAGES - 2>();
    if (kt_after < K)
        tp_store(0);
    __syncthreads();
    // main loop: a thread moves what it stashed of the next tile on when it has computed this one
    int tp_stage = 0;
    for (int kt = 0; kt < K; kt += BK) {
        if (kt_next < K)
            tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);
        tp_commit();
        auto& sA = sA_ring[tp_stage];
        auto& sB = sB_ring[tp_stage];

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            STORE4(a[0]) = LOAD4(sA[k][ty * TM]);
            STORE4(a[4]) = LOAD4(sA[k][ty * TM + 4]);
            STORE4(b[0]) = LOAD4(sB[k][tx * TN]);
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    acc[i][j] += a[i] * b[j];
        }

        tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;
        tp_wait<TP_STAGES - 2>();
        if (kt_after < K)
            tp_store(tp_stage);
        __syncthreads();  // publishes the next tile and frees this one
    }
    // epilogue: nothing in flight when shared memory is reused or the kernel returns
    tp_wait<0>();

    #pragma unroll
    for (int i = 0; i < TM; ++i)
        STORE4(C[AT(ty * TM + i, tx * TN, N)]) =
            make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}
