// Kernels that invite a wrong pipeline, one after the other: `//// name: expected`, perhaps what stands before the
// kernel and `//// body`, then the body of `f(const float* a, const int* idx, float* c, int n)` (harness.py).
// Expected is the code of the refusal, "exact": every form that is emitted equals the original, bit by bit, or
// "one buffer": so does prefetch, the only form.

//// counter_after: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int k;
    for (k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + k;

//// cond_depends_on_load_state: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int left = n, at = 0;
    while (left > 0) {
        int step = left > 2 ? 2 : 1;
        s[threadIdx.x] = a[at * 128 + threadIdx.x];
        at += step; left -= step;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * step + left;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + at;

//// two_in_one_decl: exact
    __shared__ float s[128], t[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x]; t[threadIdx.x] = a[k * 128 + 127 - threadIdx.x] * 2.0f;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * t[127 - i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// struct_elem: exact
struct P { float x, y; };
//// body
    __shared__ P s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x].x = a[k * 128 + threadIdx.x];
        s[threadIdx.x].y = a[k * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i].x * s[127 - i].y;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// three_d: exact
    __shared__ float s[2][4][16];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x / 64][threadIdx.x / 16 % 4][threadIdx.x % 16] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i / 64][i / 16 % 4][i % 16];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// negative_stride: exact
    __shared__ float s[128];
    float sum = 0.0f;
    const float* p = a + n * 128;
    for (int k = n - 1; k >= 0; --k) {
        p -= 128;
        s[threadIdx.x] = p[threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + k;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + p[0];

//// negative_copy_loop: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = 127 - threadIdx.x; i >= 0; i -= 128) s[i] = a[k * 128 + i];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// comma_expr: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row + threadIdx.x], row += 128;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// two_updates: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0, r = 3; k < n; ++k, r += 2) {
        s[threadIdx.x] = a[r * 64 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * r;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// continue_inner: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 128; i += 128) { if ((i & 3) == 1) { s[i] = 0.0f; continue; } s[i] = a[k * 128 + i]; }
        __syncthreads();
        for (int i = 0; i < 128; ++i) { if (i == 5) continue; sum = sum * 0.5f + s[i]; }
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// continue_skip: one buffer
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 128; i += 128) { if ((k & 1) && i == 7) continue; s[i] = a[k * 128 + i]; }
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// break_copy: one buffer
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 128; i += 128) { if (i >= 64 + k) break; s[i] = a[k * 128 + i]; }
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// reference_elem: exact
    __shared__ float s[128];
    float sum = 0.0f;
    float& mine = s[threadIdx.x];
    for (int k = 0; k < n; ++k) {
        mine = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// reference_elem_in: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float& mine = s[threadIdx.x];
        mine = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// pointer_elem: exact
    __shared__ float s[128];
    float sum = 0.0f;
    float* mine = &s[threadIdx.x];
    for (int k = 0; k < n; ++k) {
        *mine = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// pointer_walk_shared: TP022
    __shared__ float s[256];
    float sum = 0.0f;
    float* mine = s + threadIdx.x;
    for (int k = 0; k < n; ++k) {
        mine[0] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
        mine += 0;
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// static_local: exact
    __shared__ float s[128];
    static __device__ int calls = 0;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + calls;

//// auto_types: exact
    __shared__ float s[128];
    auto sum = 0.0f;
    auto p = a + blockIdx.x * 128;
    for (auto k = 0u; k < n; ++k) {
        auto v = p[k * 128 + threadIdx.x];
        s[threadIdx.x] = v;
        __syncthreads();
        for (auto i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// macro_tile: TP150
#define TILE(i) s[(i)]
#define FILL(i) s[i] = a[k * 128 + (i)]
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        FILL(threadIdx.x);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + TILE(i);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// macro_name_k: exact
#define OFFSET (k * 128)
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[OFFSET + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + OFFSET;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// shadow_lambda: exact
    __shared__ float s[128];
    float sum = 0.0f;
    auto load = [&](int n, const float* c) { s[threadIdx.x] = c[n * 128 + threadIdx.x]; };
    for (int k = 0; k < n; ++k) {
        load(k, a);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_param_named_tile: exact
__device__ void load(const float* s, float* a, int n) { a[threadIdx.x] = s[n * 128 + threadIdx.x]; }
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        load(a, s, k);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// local_shadows_param: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        { const float* c = a; int n = k; s[threadIdx.x] = c[n * 128 + threadIdx.x]; }
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// local_shadows_tile: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        { float s[4] = {1, 2, 3, 4}; for (int i = 0; i < 4; ++i) sum += s[i]; }
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// unsigned_wrap: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (unsigned i = threadIdx.x - 64u; i < 64u; i += 64u) s[i] = a[k * 128 + i];
        for (unsigned i = threadIdx.x + 64u; i < 128u; i += 128u) s[i] = a[k * 128 + i];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// int_wrap_step: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (unsigned char i = threadIdx.x; i < 128; i += 128) s[i] = a[k * 128 + i];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// immediate_lambda: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        [&] { s[threadIdx.x] = a[k * 128 + threadIdx.x]; }();
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// immediate_lambda_state: TP013
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        row += [&] { sum += 1.0f; return 2; }();
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// lambda_by_value: TP020
    __shared__ float s[128];
    float sum = 0.0f;
    int off = 0;
    auto load = [=](int k) { s[threadIdx.x] = a[k * 128 + off + threadIdx.x]; };
    off = 64;
    for (int k = 0; k < n; ++k) {
        load(k);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + off;

//// lambda_init_capture: TP020
    __shared__ float s[128];
    float sum = 0.0f;
    int off = 0;
    auto load = [&, off = 32](int k) { s[threadIdx.x] = a[k * 128 + off + threadIdx.x]; };
    for (int k = 0; k < n; ++k) {
        load(k);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + off;

//// compute_lambda: exact
    __shared__ float s[128];
    float sum = 0.0f;
    auto compute = [&] { for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i]; };
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        compute();
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// compute_lambda_value: exact
    __shared__ float s[128];
    float sum = 0.0f;
    auto get = [&](int i) { return s[i]; };
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + get(i);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_mixed: TP021
__device__ void step(float* s, const float* a, int k, float& sum)
{
    sum += 1.0f;
    s[threadIdx.x] = a[k * 128 + threadIdx.x];
}
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        step(s, a, k, sum);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_return: exact
__device__ void load(float* s, const float* a, int k)
{
    if (threadIdx.x >= 100) { s[threadIdx.x] = 0.0f; return; }
    s[threadIdx.x] = a[k * 128 + threadIdx.x];
}
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        load(s, a, k);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// lambda_return: exact
    __shared__ float s[128], t[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        auto load = [&] {
            if (threadIdx.x >= 100) { s[threadIdx.x] = 0.0f; return; }
            s[threadIdx.x] = a[k * 128 + threadIdx.x];
        };
        load();
        t[threadIdx.x] = a[k * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + t[127 - i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// file_shared: exact
extern __shared__ float smem[];
//// body
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        smem[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + smem[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// file_shared_static: exact
__shared__ float s[128];
//// body
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// zero_changed_before: exact
    __shared__ float s[128];
    float sum = 0.0f, z = 0.0f;
    z = 1.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = threadIdx.x < 100 ? a[k * 128 + threadIdx.x] : z;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// zero_var_changed: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float z = 0.0f;
        z += 1.0f;
        if (threadIdx.x < 100) s[threadIdx.x] = a[k * 128 + threadIdx.x];
        else s[threadIdx.x] = z;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// cos_zero: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = threadIdx.x < 100 ? a[k * 128 + threadIdx.x] : cosf(0.0f);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// macro_zero: exact
#define ONE_OR(x) (x + 1.0f)
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = threadIdx.x < 100 ? a[k * 128 + threadIdx.x] : ONE_OR(0.0f);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// neg_zero: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = threadIdx.x < 100 ? a[k * 128 + threadIdx.x] : -0.0f;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + (s[i] == 0.0f ? 1.0f / s[i] > 0 : s[i]);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// guarded_increment: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    const float* p = a + threadIdx.x;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = threadIdx.x + k < 100 ? *p++ : 0.0f;
        p += 127;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + p[0];

//// guard_increment: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int count = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = (count++ < 3) ? a[count * 128 + threadIdx.x] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + count;

//// load_side_effect: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row++ * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// walk_side_effect: exact
    __shared__ float s[128];
    float sum = 0.0f;
    const float* p = a + threadIdx.x;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = *p++;
        p += 127;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// guard_changed_inside: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        int x = threadIdx.x;
        float v = 0.0f;
        if (x < 100) { x += 28; v = a[k * 128 + x]; }
        s[threadIdx.x] = v;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// value_used_by_compute: exact
    __shared__ float s[128];
    float sum = 0.0f;
    const float* p = a + threadIdx.x;
    for (int k = 0; k < n; ++k) {
        float v = *p;
        p += 128;
        s[threadIdx.x] = v;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * v;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// pointer_used_after: exact
    __shared__ float s[128];
    float sum = 0.0f;
    const float* q = s + 4;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + (n > 0 ? q[threadIdx.x % 8] : 0.0f);

//// pointer_used_in_and_after: exact
    __shared__ float s[128];
    float sum = 0.0f;
    const float* q = s + 4;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 124; ++i) sum = sum * 0.5f + q[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + (n > 0 ? q[threadIdx.x % 8] : 0.0f);

//// unbraced_parent: exact
    __shared__ float s[128];
    float sum = 0.0f;
    if (n > 1)
        for (int k = 0; k < n; ++k) {
            s[threadIdx.x] = a[k * 128 + threadIdx.x];
            __syncthreads();
            for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
            __syncthreads();
        }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// unbraced_outer: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int o = 0; o < 2; ++o)
        for (int k = 0; k < n; ++k) {
            s[threadIdx.x] = a[(o + k) * 128 + threadIdx.x];
            __syncthreads();
            for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
            __syncthreads();
        }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// same_line_before: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int first;
    first = 1; for (int k = first; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// same_line_after: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    } s[threadIdx.x] = sum; __syncthreads();
    c[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];

//// one_line_loop: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) { s[threadIdx.x] = a[k * 128 + threadIdx.x]; __syncthreads(); for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i]; __syncthreads(); }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// brace_shared_line: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) { s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads(); }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// brace_shared_line2: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) { __syncthreads();
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 64; ++i) sum = sum * 0.5f + s[i];
        for (int i = 64; i < 128; ++i) sum = sum * 0.5f + s[i]; }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// unbraced_body: TP010
    __shared__ float s[128];
    float sum = 0.0f;
    auto step = [&](int k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    };
    for (int k = 0; k < n; ++k)
        step(k);
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// name_taken: TP150
    __shared__ float s[128];
    float sum = 0.0f;
    int k_next = 7;
    {
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * k_next;
        __syncthreads();
    }
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// ring_taken: exact
    __shared__ float s[128];
    float sum = 0.0f, s_ring = 2.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * s_ring;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// device_scalar: TP017
__device__ int g_row;
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    if (threadIdx.x == 0) g_row = 0;
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[g_row * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        if (threadIdx.x == 0) g_row = k + 1;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// sync_or: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int any = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        any = __syncthreads_count(sum > 0.0f);
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + any;

//// unsigned_descend: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (unsigned int k = n - 1; k < (unsigned)n; --k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// int_from_unsigned: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = gridDim.x - 4; k < n - 2; ++k) {
        s[threadIdx.x] = a[(k + 2) * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// char_counter: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (unsigned char k = 0; k < n * 40; k += 40) {
        s[threadIdx.x] = a[k * 16 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
        if (n > 5) n = 5;
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// cond_lambda: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int k = 0;
    auto more = [&] { return k < n; };
    while (more()) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        ++k;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// expr_lambda_state: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int row = -1;
    auto next = [&] { return ++row; };
    for (int k = 0; k < n; ++k) {
        int r = next();
        s[threadIdx.x] = a[r * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + row;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// while_post: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int k = 0;
    while (k++ < n) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + k;

//// while_decl: TP020
    __shared__ float s[128];
    float sum = 0.0f;
    int k = 0;
    while (int m = n - k) {
        s[threadIdx.x] = a[m * 128 + threadIdx.x];
        ++k;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * m;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + k;

//// struct_state: exact
struct It { int r; const float* p; };
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    It it = {0, a};
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = it.p[it.r * 128 + threadIdx.x];
        it.r += 1;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + it.r;

//// pointer_to_state: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    int* r = &row;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        *r += 1;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// ref_to_state: TP021
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    int& r = row;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        r += 1;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// helper_by_pointer: exact
__device__ void advance(int* r) { *r += 1; }
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        advance(&row);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// if_init: TP020
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        if (int x = threadIdx.x; x < 100) s[threadIdx.x] = a[k * 128 + x]; else s[threadIdx.x] = 0.0f;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// static_shared_decl: exact
    static __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// utf8: exact
    __shared__ float s[128]; // größe → 128
    float sum = 0.0f; /* Σ */
    for (int k = 0; k < n; ++k) { // ∀k
        s[threadIdx.x] = a[k * 128 + threadIdx.x]; // ü
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i]; // é
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// read_after_loop: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    if (n > 0) sum += s[127 - threadIdx.x];
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// mixed_loop_continue: exact
    __shared__ float s[128];
    float sum = 0.0f, loc = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 128; i += 128) {
            loc += 1.0f;
            if (i > 100) { s[i] = 0.0f; continue; }
            s[i] = a[k * 128 + i];
            loc += 2.0f;
        }
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + loc;

//// view_overlap_loop: exact
    __shared__ float s[160];
    float sum = 0.0f;
    const float* q = s + 16;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 112; ++i) sum = sum * 0.5f + q[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// two_views: exact
    extern __shared__ float pool[];
    float sum = 0.0f;
    float* s = pool;
    float* t = pool + 128;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        t[threadIdx.x] = a[k * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * t[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// invariant_view: exact
    extern __shared__ float pool[];
    float sum = 0.0f;
    float* w = pool;
    float* s = pool + 128;
    w[threadIdx.x] = a[threadIdx.x + 7];
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * w[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// dynamic_after: exact
    extern __shared__ float s[];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    float x = 0.0f;
    if (n > 0) { s[threadIdx.x] = s[threadIdx.x] + 1.0f; x = s[threadIdx.x]; }
    c[blockIdx.x * 128 + threadIdx.x] = sum + x;

//// reuse_after: exact
    extern __shared__ float s[];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    c[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];

//// no_end_barrier_reuse: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        __syncthreads();
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
    }
    __syncthreads();
    s[threadIdx.x] = sum;
    __syncthreads();
    c[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];

//// outer_loop_reuse: TP015
    __shared__ float s[128];
    float sum = 0.0f;
    for (int o = 0; o < 3; ++o) {
        for (int k = 0; k < n - o; ++k) {
            s[threadIdx.x] = a[(o + k) * 128 + threadIdx.x];
            __syncthreads();
            for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
            __syncthreads();
        }
        s[threadIdx.x] = sum;
        __syncthreads();
        sum += s[127 - threadIdx.x];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// outer_loop_pointer: exact
    __shared__ float s[128];
    float sum = 0.0f;
    const float* p = a;
    for (int o = 0; o < 3; ++o) {
        for (int k = 0; k < n - o; ++k, p += 64) {
            s[threadIdx.x] = p[threadIdx.x];
            __syncthreads();
            for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
            __syncthreads();
        }
        p += 3;
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// scratch_and_tile: exact
    __shared__ float s[128], w[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        w[threadIdx.x] = s[127 - threadIdx.x] * 2.0f;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + w[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// gather_shared_index: exact
    __shared__ float s[128];
    __shared__ int rows[64];
    float sum = 0.0f;
    if (threadIdx.x < 64) rows[threadIdx.x] = idx[threadIdx.x];
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[rows[k] * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// index_ahead: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int row = idx[0];
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        row = idx[k + 1];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// index_chain: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        row = idx[row + k];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + row;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + row;

//// bump_before_load: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int row = -1;
    for (int k = 0; k < n; ++k) {
        row += 1 + (k & 1);
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * row;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// bump_in_compute: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) { sum = sum * 0.5f + s[i] * row; if (i == 64) row += 1; }
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// bump_under_if: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        if (k & 1) row += 2; else row += 1;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * row;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// bump_between_loads: exact
    __shared__ float s[128], t[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        row += 1;
        t[threadIdx.x] = a[row * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * t[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// bump_between_mixed: exact
    __shared__ float s[128], t[128];
    float sum = 0.0f;
    int row = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[row * 128 + threadIdx.x];
        row += 1;
        t[threadIdx.x] = 2.0f * a[row * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * t[i] + row;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// store_address_state: TP022
    __shared__ float s[256];
    float sum = 0.0f;
    int off = 0;
    for (int k = 0; k < n; ++k) {
        s[off + threadIdx.x] = a[k * 128 + threadIdx.x];
        s[128 - off + threadIdx.x] = a[k * 128 + 127 - threadIdx.x];
        off ^= 128;
        __syncthreads();
        for (int i = 0; i < 256; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// halves_alternate: TP015
    __shared__ float s[256];
    float sum = 0.0f;
    s[threadIdx.x + 128] = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[(k & 1) * 128 + threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// guard_bool_varying: one buffer
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        bool ok = false;
        if (k != 1) ok = true;
        if (ok) s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// vote_condition: TP013
    __shared__ float s[128];
    float sum = 0.0f;
    int k = 0, go = n > 0;
    while (go) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        ++k;
        go = __syncthreads_or(k < n);
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// vector_reinterpret: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        if (threadIdx.x < 32) reinterpret_cast<float4*>(s)[threadIdx.x] = reinterpret_cast<const float4*>(a + k * 128)[threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// swap_pointers: TP022
    __shared__ float s[128], t[128];
    float sum = 0.0f;
    float* x = s;
    float* y = t;
    for (int k = 0; k < n; ++k) {
        x[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + x[i];
        float* z = x; x = y; y = z;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// accumulate_store: TP013
    __shared__ float s[128];
    float sum = 0.0f;
    s[threadIdx.x] = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] += a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// const_in_compute: exact
    __shared__ float s[129];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        if (threadIdx.x == 0) s[128] = k;
        __syncthreads();
        for (int i = 0; i < 129; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// clear_after_use: TP012
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
        s[threadIdx.x] = 0.0f;
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// clear_then_partial: TP012
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = 0.0f;
        __syncthreads();
        if (threadIdx.x + k < 100) s[threadIdx.x + k] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// clear_same_phase: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = 0.0f;
        if (threadIdx.x < 100) s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// clear_other_thread: TP012
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[127 - threadIdx.x] = 0.0f;
        __syncthreads();
        if (threadIdx.x < 100) s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// param_reused: exact
    __shared__ float s[128];
    float sum = 0.0f;
    while (n > 0) {
        s[threadIdx.x] = a[n * 128 + threadIdx.x];
        n -= 1;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * n;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// param_pointer_bumped: exact
    __shared__ float s[128];
    float sum = 0.0f;
    a += threadIdx.x;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = *a;
        a += 128;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + *a;

//// asm_pointer: exact
    __shared__ float s[128];
    float sum = 0.0f;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(s));
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) { float v; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + i * 4) : "memory"); sum = sum * 0.5f + v; }
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// asm_store: TP001
    __shared__ float s[128];
    float sum = 0.0f;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(s + threadIdx.x));
    for (int k = 0; k < n; ++k) {
        float v = a[k * 128 + threadIdx.x];
        asm volatile("st.shared.f32 [%0], %1;" :: "r"(at), "f"(v) : "memory");
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// struct_tile: TP001
struct Tile { float v[128]; float w[128]; };
//// body
    __shared__ Tile s;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s.v[threadIdx.x] = a[k * 128 + threadIdx.x];
        s.w[threadIdx.x] = a[k * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s.v[i] * s.w[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// decl_in_loop: exact
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        __shared__ float s[128];
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// atomic_compute: exact
    __shared__ float s[128];
    __shared__ int hits;
    float sum = 0.0f;
    if (threadIdx.x == 0) hits = 0;
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        if (sum > 0.0f) atomicAdd(&hits, 1);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + hits;

//// reuse_in_iteration: TP012
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
        s[threadIdx.x] = a[k * 128 + 127 - threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f - s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// multi_decl_in_loop: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0, m = n; k < m; ++k, --m) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x + m];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + m;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// pointer_header: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (const float* p = a, *end = a + n * 128; p < end; p += 128) {
        s[threadIdx.x] = p[threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// not_equal_condition: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k != n; k++) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// long_counter: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (unsigned long long k = 0; k < (unsigned long long)n; k += 1ull) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// bool_flag: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int k = 0;
    bool more = n > 0;
    while (more) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        k += 1;
        more = k < n;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + more;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// flag_after_compute: exact
    __shared__ float s[128];
    float sum = 0.0f;
    int k = 0;
    bool more = n > 0;
    while (more) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + k;
        __syncthreads();
        ++k;
        if (k >= n) more = false;
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// local_array_permuted: exact
    __shared__ float s[256];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float v[2];
        for (int j = 0; j < 2; ++j) v[j] = a[k * 128 + j * 128 + threadIdx.x];
        for (int j = 0; j < 2; ++j) s[j * 128 + threadIdx.x] = v[1 - j];
        __syncthreads();
        for (int i = 0; i < 256; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// value_reused_two_stores: exact
    __shared__ float s[128], t[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float v = a[k * 128 + threadIdx.x];
        s[threadIdx.x] = v;
        v = a[k * 128 + 127 - threadIdx.x];
        t[threadIdx.x] = v;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * t[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// value_patched: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float v = a[k * 128 + threadIdx.x];
        if (v < 0.0f) v = 0.0f;
        s[threadIdx.x] = v;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// sorted_in_compute: exact
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        if (threadIdx.x < 64) s[threadIdx.x] += s[threadIdx.x + 64];
        __syncthreads();
        for (int i = 0; i < 64; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// warp_shuffle_load: TP001
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float v = a[k * 128 + threadIdx.x];
        v = __shfl_xor_sync(0xffffffffu, v, 1);
        s[threadIdx.x] = v;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// macro_loop_bound: TP021
#define LIMIT (n - skipped)
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    int skipped = 0;
    for (int k = 0; k < LIMIT; ++k) {
        s[threadIdx.x] = a[(k + skipped) * 128 + threadIdx.x];
        skipped += k & 1;
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + skipped;

//// nested_helper: exact
__device__ float pick(const float* p, int i) { return p[i]; }
__device__ void put(float* to, const float* from, int k) { to[threadIdx.x] = pick(from, k * 128 + threadIdx.x); }
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        put(s, a, k);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + pick(s, i);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_recursive_name: exact
__device__ int next(int k) { return k + 1; }
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; k = next(k)) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// comment_braces: exact
    __shared__ float s[128]; // } {
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) { // for (;;) {
        // load }
        s[threadIdx.x] = a[k * 128 + threadIdx.x]; /* { */
        __syncthreads(); // s[0] = 1;
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    } // }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// pragma_inside: exact
    __shared__ float s[128];
    float sum = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) {
        #pragma unroll
        for (int i = threadIdx.x; i < 128; i += 128)
            s[i] = a[k * 128 + i];
        __syncthreads();
        #pragma unroll 4
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// register_in_turn: exact
    __shared__ float s[128];
    float sum = 0.0f;
    float v, w;
    for (int k = 0; k < n; ++k) {
        v = a[k * 128 + threadIdx.x];
        s[threadIdx.x] = v;
        __syncthreads();
        w = 1.0f;
        for (int i = 0; i < 128; ++i) {
            v = s[i] * w;
            w = v + 0.5f;
            sum = sum * 0.5f + v;
        }
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// register_in_turn_after: TP001
    __shared__ float s[128];
    float sum = 0.0f;
    float v = 0.0f;
    for (int k = 0; k < n; ++k) {
        v = a[k * 128 + threadIdx.x];
        s[threadIdx.x] = v;
        __syncthreads();
        if (k & 1) v = s[127 - threadIdx.x];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + v;

//// private_row: exact
    __shared__ float s[128];
    __shared__ float own[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 3; ++j) {
            own[threadIdx.x] = a[j * 128 + threadIdx.x];
            for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * own[threadIdx.x];
        }
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// shared_row_without_barrier: TP010
    __shared__ float s[128];
    __shared__ float own[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        own[threadIdx.x] = a[threadIdx.x];
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] * own[127 - threadIdx.x];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_with_static_assert: exact
template <int N> __device__ void fill(float* s, const float* p, int t)
{
    static_assert(N % 2 == 0);
    using Element = float;
    if (t < N) s[t] = p[t];
}
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        fill<128>(s, a + k * 128, threadIdx.x);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_with_static_assert_and_counter: TP021
template <int N> __device__ void fill(float* s, const float* p, int k, int t)
{
    static_assert(N % 2 == 0);
    if (t < N) s[t] = p[k * 128 + t];
}
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    int at = 0;
    for (int k = 0; k < n; ++k) {
        fill<128>(s, a, at++, threadIdx.x);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i] + at;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// helper_with_parameters_crossed: TP021
template <int M, int N> __device__ void fill(float* s, const float* p, int t)
{
    if (t >= M && t < N) s[t] = p[t];
}
constexpr int M = 128, N = 0;
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        fill<N, M>(s, a + k * 128, threadIdx.x);
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// copy_loop_from_a_masked_start: exact
//// body
    __shared__ float s[512];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x & 127; i < 512; i += 128) s[i] = a[k * 512 + i];
        __syncthreads();
        for (int i = 0; i < 512; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// copy_loop_with_an_open_macro_as_step: exact
#define STEP 64 + 64
//// body
    __shared__ float s[512];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 512; i += STEP) s[i] = a[k * 512 + i];
        __syncthreads();
        for (int i = 0; i < 512; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// load_through_a_variable_that_moves_a_pointer: TP150
//// body
    __shared__ float s[512];
    float sum = 0.0f;
    const float4* p = reinterpret_cast<const float4*>(a) + threadIdx.x;
    for (int k = 0; k < n; ++k) {
        const float4 v = *p++;
        s[threadIdx.x] = v.x;
        s[threadIdx.x + 128] = v.y;
        s[threadIdx.x + 256] = v.z;
        s[threadIdx.x + 384] = v.w;
        p += 127;
        __syncthreads();
        for (int i = 0; i < 512; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// load_through_a_variable_that_moves_an_index: TP150
//// body
    __shared__ float s[256];
    float sum = 0.0f;
    int at = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        const float v = a[at++];
        s[threadIdx.x] = v;
        s[threadIdx.x + 128] = a[at];
        at += 255;
        __syncthreads();
        for (int i = 0; i < 256; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// type_and_assert_of_the_loop_s_own: exact
//// body
    __shared__ float s[512];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        using value = float;
        typedef const value* pointer;
        constexpr int step = 128;
        static_assert(step == 128, "a block");
        for (int i = threadIdx.x; i < 512; i += step) {
            const value v = ((pointer)a)[k * 512 + i];
            s[i] = v;
        }
        __syncthreads();
        for (int i = 0; i < 512; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// open_macro_in_indices: exact
#define LANE (threadIdx.x & 31) + 8
#define TWICE(x) x + x
//// body
    __shared__ float s[16][32];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 512; i += 128) s[i / 32][i % 32] = a[k * 512 + i];
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum = sum * 0.5f + s[i][LANE % 32] * 2 * TWICE(i);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// open_macro_that_may_be_another: TP020
#ifndef LANE
#define LANE (threadIdx.x & 31) + 8
#endif
//// body
    __shared__ float s[16][32];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 512; i += 128) s[i / 32][i % 32] = a[k * 512 + i];
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum = sum * 0.5f + s[i][LANE % 32];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// pointers_initialised_in_parentheses: exact
    __shared__ float s[2][64];
    float sum = 0.0f;
    float* whole((float*)s), *own(&s[threadIdx.x / 64][threadIdx.x % 64]);
    for (int k = 0; k < n; ++k) {
        const float* from(a + k * 128 + threadIdx.x);
        *own = *from;
        __syncthreads();
        const float* row(&s[1][0]);
        for (int i = 0; i < 128; ++i) {
            const float* at(whole + i);
            sum = sum * 0.5f + *at * row[63 - (i & 63)];
        }
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// output_of_the_program: exact
#include <cstdio>
#include <cassert>
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    int shift = 0;
    for (int k = 0; k < n; ++k) {
        printf("%d", shift);
        s[threadIdx.x] = a[k * 128 + ((threadIdx.x + shift) & 127)];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        shift = k & 1;
        assert(n);
        if (sum == 0.25f && k > 0) printf("%d %f %p", k, s[0], s);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum + shift;

//// a_function_of_that_name: exact
__device__ __forceinline__ void printf(int& at, float) { at += 1; }
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    int shift = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + ((threadIdx.x + shift) & 127)];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        printf(shift, 1.0f);
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// output_that_the_load_counts: TP018
#include <cstdio>
//// body
    __shared__ float s[128];
    float sum = 0.0f;
    int shift = 0;
    for (int k = 0; k < n; ++k) {
        shift = printf("%d", k);
        s[threadIdx.x] = a[k * 128 + ((threadIdx.x + shift) & 127)];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;

//// a_pointer_in_parentheses_to_what_the_compute_writes: TP013
    __shared__ float s[128];
    float sum = 0.0f;
    int shift = 0;
    for (int k = 0; k < n; ++k) {
        int* moved(&shift + 0);
        s[threadIdx.x] = a[k * 128 + ((threadIdx.x + shift) & 127)];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum = sum * 0.5f + s[i];
        *moved = sum > 0.0f;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;
