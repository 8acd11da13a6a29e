// Tensor-core instructions. Products are exact; sums run over k in ascending order with one fused multiply-add
// a step, in f32 (f16, bf16, tf32), f64 or wrapping 32-bit integers. f16 accumulators are rounded once, at the end.
#ifndef TILEPIPE_TENSOR_H
#define TILEPIPE_TENSOR_H
#include "arith.h"
#include "collectives.h"

enum ElementType { T_F16 = 0, T_BF16, T_TF32, T_F32, T_F64, T_S8, T_U8, T_S32 };
enum { MAX_INPUT = 512, MAX_OUTPUT = 256 };

INLINE uint32_t element_bytes(uint32_t type) {
  static const uint8_t bytes[] = {2, 2, 4, 4, 8, 1, 1, 4};
  return bytes[type];
}

typedef union Matrix {
  float f[MAX_INPUT];
  double d[MAX_INPUT];
  int32_t i[MAX_INPUT];
} Matrix;

// Element `at` of `m` from the `j`-th element of a register.
INLINE void unpack(Matrix *m, uint32_t at, uint32_t type, uint64_t word, uint32_t j) {
  switch (type) {
    case T_F16: m->f[at] = half_to_float((uint16_t)(word >> 16 * j)); break;
    case T_BF16: m->f[at] = bf16_to_float((uint16_t)(word >> 16 * j)); break;
    case T_TF32: m->f[at] = as_float((uint32_t)word & 0xffffe000u); break;
    case T_F64: m->d[at] = as_double(word); break;
    case T_S8: m->i[at] = (int8_t)(word >> 8 * j); break;
    case T_U8: m->i[at] = (uint8_t)(word >> 8 * j); break;
    default: m->i[at] = (int32_t)word; break;  // f32 and s32
  }
}

INLINE uint64_t pack(const Matrix *m, uint32_t at, uint32_t type, uint32_t j) {
  switch (type) {
    case T_F16: return (uint64_t)float_to_half(m->f[at]) << 16 * j;
    case T_F64: return as_bits64(m->d[at]);
    default: return (uint32_t)m->i[at];
  }
}

INLINE uint32_t per_register(uint32_t type) { return type == T_F64 ? 1 : 4 / element_bytes(type); }
INLINE uint64_t get_word(const Thread *t, Operand o, uint32_t type) {
  return type == T_F64 ? get64(t, o) : get(t, o);
}
INLINE void set_word(Thread *t, Operand o, uint32_t type, uint64_t x) {
  if (type == T_F64) set64(t, o, x); else set(t, o, (uint32_t)x);
}

// c[m][n] += a[m][k] * b[k][n], row-major; n is a compile-time constant in each call.
#define DEFINE_PRODUCT(NAME, FIELD, STEP)                                                                    \
  INLINE void NAME(const Matrix *restrict a, const Matrix *restrict b, Matrix *restrict c, uint32_t m,         \
                   uint32_t n, uint32_t k) {                                                                 \
    for (uint32_t i = 0; i < m; i++)                                                                         \
      for (uint32_t x = 0; x < k; x++)                                                                       \
        for (uint32_t j = 0; j < n; j++) {                                                                   \
          __typeof__(c->FIELD[0]) p = a->FIELD[i * k + x], q = b->FIELD[x * n + j], s = c->FIELD[i * n + j]; \
          c->FIELD[i * n + j] = STEP;                                                                        \
        }                                                                                                    \
  }
DEFINE_PRODUCT(product_f32, f, __builtin_fmaf(p, q, s))
DEFINE_PRODUCT(product_f64, d, __builtin_fma(p, q, s))
DEFINE_PRODUCT(product_s32, i, (int32_t)((uint32_t)p * (uint32_t)q + (uint32_t)s))

NOINLINE void product_saturated(const Matrix *a, const Matrix *b, Matrix *c, uint32_t m, uint32_t n, uint32_t k) {
  for (uint32_t i = 0; i < m; i++)
    for (uint32_t j = 0; j < n; j++) {
      int64_t s = c->i[i * n + j];
      for (uint32_t x = 0; x < k; x++) s += (int64_t)a->i[i * k + x] * b->i[x * n + j];
      c->i[i * n + j] = (int32_t)(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s);
    }
}

NOINLINE void product(Thread *w, const Matrix *a, const Matrix *b, Matrix *c, const uint32_t *shape, uint32_t type,
                    uint32_t saturate) {
  uint32_t m = shape[0], n = shape[1], k = shape[2];
  if (type == T_F64)
    product_f64(a, b, c, 8, 8, 4);
  else if (type == T_S8 || type == T_U8) {
    if (saturate) product_saturated(a, b, c, m, n, k);
    else if (n == 8) product_s32(a, b, c, m, 8, k);
    else if (n == 16) product_s32(a, b, c, m, 16, k);
    else product_s32(a, b, c, m, 32, k);
  } else if (n == 8)
    product_f32(a, b, c, m, 8, k);
  else if (n == 16)
    product_f32(a, b, c, m, 16, k);
  else
    product_f32(a, b, c, m, 32, k);
  w->math += (uint64_t)m * n * k;
}

// mma.sync: fragments as the PTX manual lays them out. With p elements a register, lane 4g + t holds in
// register r of A row g + 8 (r odd, M = 16), columns tp + 4p (r / 2) ...; of B rows tp + 4pr ..., column g;
// of C row g + 8 (r / 2) as pairs of columns 2t, 2t + 1.
// `types` are those of a, b, c and d; called with constants, the conversions become straight code.
INLINE void mma_typed(Thread *w, const Collective *c, uint32_t type, const uint32_t *types) {
  const uint32_t m = c->p[0], n = 8, k = c->p[2];
  const uint32_t tall = m / 8, p = per_register(type);
  const uint32_t cp = types[2] == T_F16 ? 2 : 1, dp = types[3] == T_F16 ? 2 : 1;
  const uint32_t na = m * k / 32 / p, nb = n * k / 32 / p, nc = m * n / 32 / cp, nd = m * n / 32 / dp;
  const Operand *d = c->operands, *oa = d + nd, *ob = oa + na, *oc = ob + nb;
  Matrix a, b, acc;
  for (uint32_t l = 0; l < 32; l++) {
    const uint32_t g = l >> 2, t = l & 3;
    for (uint32_t r = 0; r < na; r++) {
      uint64_t word = get_word(w + l, oa[r], type);
      uint32_t at = (g + (tall == 2 ? 8 * (r & 1) : 0)) * k + t * p + (tall == 2 ? r >> 1 : r) * 4 * p;
      for (uint32_t j = 0; j < p; j++) unpack(&a, at + j, types[0], word, j);
    }
    for (uint32_t r = 0; r < nb; r++) {
      uint64_t word = get_word(w + l, ob[r], type);
      for (uint32_t j = 0; j < p; j++) unpack(&b, (t * p + j + r * 4 * p) * n + g, types[1], word, j);
    }
    for (uint32_t r = 0; r < nc; r++) {
      uint64_t word = get_word(w + l, oc[r], types[2]);
      for (uint32_t j = 0; j < cp; j++) {
        uint32_t e = r * cp + j;
        unpack(&acc, (g + 8 * (e >> 1)) * n + 2 * t + (e & 1), types[2], word, j);
      }
    }
  }
  product(w, &a, &b, &acc, c->p, type, c->p[7]);
  for (uint32_t l = 0; l < 32; l++) {
    const uint32_t g = l >> 2, t = l & 3;
    for (uint32_t r = 0; r < nd; r++) {
      uint64_t word = 0;
      for (uint32_t j = 0; j < dp; j++) {
        uint32_t e = r * dp + j;
        word |= pack(&acc, (g + 8 * (e >> 1)) * n + 2 * t + (e & 1), types[3], j);
      }
      set_word(w + l, d[r], types[3], word);
    }
  }
}

// The same for 16-bit inputs and f32 accumulators, the common case: a register of A or B is two neighbours of a row
// or column, so fragments move as words and convert as vectors.
INLINE void mma_half(Thread *w, const Collective *c, uint32_t type) {
  const uint32_t k = c->p[2], words = k / 2, na = k / 4, nb = k / 8;
  const Operand *d = c->operands, *oa = d + 4, *ob = oa + na, *oc = ob + nb;
  union { uint32_t word[16 * 8]; uint16_t half[16 * 16]; } rows, columns;
  Matrix a, b, turned, acc;
  for (uint32_t l = 0; l < 32; l++) {
    const uint32_t g = l >> 2, t = l & 3;
    for (uint32_t r = 0; r < na; r++) rows.word[(g + 8 * (r & 1)) * words + t + 4 * (r >> 1)] = get(w + l, oa[r]);
    for (uint32_t r = 0; r < nb; r++) columns.word[g * words + t + 4 * r] = get(w + l, ob[r]);
    for (uint32_t r = 0; r < 4; r++) acc.i[(g + 8 * (r >> 1)) * 8 + 2 * t + (r & 1)] = (int32_t)get(w + l, oc[r]);
  }
  for (uint32_t i = 0; i < 16 * k; i++)
    a.f[i] = type == T_F16 ? half_to_float(rows.half[i]) : bf16_to_float(rows.half[i]);
  for (uint32_t i = 0; i < 8 * k; i++)
    turned.f[i] = type == T_F16 ? half_to_float(columns.half[i]) : bf16_to_float(columns.half[i]);
  for (uint32_t x = 0; x < k; x++)
    for (uint32_t j = 0; j < 8; j++) b.f[x * 8 + j] = turned.f[j * k + x];
  product(w, &a, &b, &acc, c->p, type, 0);
  for (uint32_t l = 0; l < 32; l++) {
    const uint32_t g = l >> 2, t = l & 3;
    for (uint32_t r = 0; r < 4; r++) set(w + l, d[r], (uint32_t)acc.i[(g + 8 * (r >> 1)) * 8 + 2 * t + (r & 1)]);
  }
}

NOINLINE void mma(Thread *w, const Collective *c) {
  const uint32_t type = c->p[3], f32 = c->p[4] == T_F32 && c->p[5] == T_F32;
  if (type == T_F16 && f32)
    mma_half(w, c, T_F16);
  else if (type == T_BF16)
    mma_half(w, c, T_BF16);
  else if (type == T_S8 && !c->p[6])
    mma_typed(w, c, T_S8, (const uint32_t[]){T_S8, T_S8, T_S32, T_S32});
  else {
    const uint32_t types[] = {c->p[6] & 1 ? T_U8 : type, c->p[6] & 2 ? T_U8 : type, c->p[5], c->p[4]};
    mma_typed(w, c, type, types);
  }
}

// The compiler moves a fragment in ways that PTX does not show. Counted are rows of 16 bytes, eight side by side a
// wavefront, as ldmatrix takes them.
static void log_matrix(Thread *w, const Collective *c, uint64_t base, uint64_t stride, uint32_t lines, uint32_t bytes) {
  if (!w->block->profile) return;
  const uint32_t chunk = bytes < 16 ? bytes : 16, total = lines * (bytes / chunk);
  uint32_t space = c->p[4] == 0 || (base & WINDOW_MASK) == SHARED_WINDOW ? SPACE_SHARED : SPACE_GLOBAL;
  for (uint32_t i = 0; i < total; i++) {
    uint64_t at = base + i % lines * stride + i / lines * chunk;
    tp_log(w + i % 32, space == SPACE_SHARED ? (uint32_t)at : at, chunk, c->site, space);
    if (i % 32 == 31 || i + 1 == total) flush_log(w->block);
  }
}

// wmma fragments are opaque in PTX. Ours hold the matrix in storage order: lane l, element e is number
// (l E + e) mod T of its T elements, so fragments with more room than elements repeat.
// WMMA_LOAD and WMMA_STORE: p0 rows, p1 columns, p2 element type, p3 column-major storage, p4 space
// (0 shared, 1 global, 2 generic), p5 offset, p6 row-major fragment wanted (accumulators): registers..., address, ld.
NOINLINE void wmma_move(Thread *w, const Collective *c, int store) {
  const uint32_t rows = c->p[0], columns = c->p[1], type = c->p[2], bytes = element_bytes(type);
  const uint32_t total = rows * columns, p = per_register(type), each = (c->count - 2) * p;
  const uint32_t lanes = total / each < 32 ? total / each : 32;
  const Operand *address = c->operands + c->count - 2;
  const uint32_t run = c->p[3] ? rows : columns;  // elements contiguous in memory
  for (uint32_t l = 0; l < 32; l++) {
    Thread *t = w + l;
    if (l >= lanes) {
      if (!store)
        for (uint32_t r = 0; r < c->count - 2; r++)
          set_word(t, c->operands[r], type, get_word(w + l % lanes, c->operands[r], type));
      continue;
    }
    const uint64_t base = (c->p[4] ? get64(t, address[0]) : get(t, address[0])) + (int32_t)c->p[5];
    const uint64_t ld = get(t, address[1]);
    if ((base & 15) || (ld * bytes & 15)) report(t, MISALIGNED, NOBODY, c->site, 0, base);
    if (l == 0) log_matrix(t, c, base, ld * bytes, total / run, run * bytes);
    uint8_t data[64];
    for (uint32_t e = 0; e < each;) {
      uint32_t at = l * each + e, span = 1, major = at / run, minor = at % run;
      if (c->p[3] && c->p[6])  // the fragment is row-major, the storage column-major
        major = at % columns, minor = at / columns;
      else
        span = run - minor < each - e ? run - minor : each - e;
      uint64_t where = base + (major * ld + minor) * bytes;
      uint8_t *memory = c->p[4] == 0 || (where & WINDOW_MASK) == SHARED_WINDOW
                            ? shared_span(t, (uint32_t)where, span * bytes, bytes, c->site, store)
                            : tp_global(t, where, span * bytes, bytes, c->site, store ? WRITE : TOUCH);
      if (store) {
        for (uint32_t r = 0; r < span; r++) {
          uint64_t word = get_word(t, c->operands[(e + r) / p], type) >> 8 * bytes * ((e + r) % p);
          __builtin_memcpy(memory + r * bytes, &word, bytes);
        }
      } else
        __builtin_memcpy(data + e * bytes, memory, span * bytes);
      e += span;
    }
    if (!store)
      for (uint32_t r = 0; r < c->count - 2; r++) {
        uint64_t word = 0;
        __builtin_memcpy(&word, data + r * p * bytes, p * bytes);
        set_word(t, c->operands[r], type, word);
      }
  }
}

INLINE void gather_typed(Thread *w, Matrix *m, const Operand *o, uint32_t registers, uint32_t type,
                         uint32_t rows, uint32_t columns, uint32_t column_major) {
  const uint32_t total = rows * columns, p = per_register(type);
  uint32_t row = 0, column = 0;
  for (uint32_t at = 0, r = 0; at < total; at += p) {
    uint64_t word = get_word(w, o[r], type);
    if (++r == registers) r = 0, w++;
    for (uint32_t j = 0; j < p; j++) {
      unpack(m, column_major ? row * columns + column : at + j, type, word, j);
      if (++row == rows) row = 0, column++;
    }
  }
}

// Reads a fragment of `registers` registers into a row-major rows x columns matrix.
NOINLINE void gather(Thread *w, Matrix *m, const Operand *o, uint32_t registers, uint32_t type, uint32_t rows,
                     uint32_t columns, uint32_t column_major) {
  if (type == T_F16)
    gather_typed(w, m, o, registers, T_F16, rows, columns, column_major);
  else if (type == T_F32 || type == T_S32)
    gather_typed(w, m, o, registers, T_F32, rows, columns, 0);
  else if (type == T_S8)
    gather_typed(w, m, o, registers, T_S8, rows, columns, column_major);
  else
    gather_typed(w, m, o, registers, type, rows, columns, column_major);
}

// WMMA_MMA: p0..p2 shape, p3 input type, p4 output type, p5 accumulator type, p6 column-major bits of a, b, p7 saturate
// | counts of registers in bits 8..: a << 8, b << 16, c << 24 (d is what remains).
NOINLINE void wmma_mma(Thread *w, const Collective *c) {
  const uint32_t m = c->p[0], n = c->p[1], k = c->p[2], type = c->p[3];
  const uint32_t na = c->p[7] >> 8 & 255, nb = c->p[7] >> 16 & 255, nc = c->p[7] >> 24;
  const uint32_t nd = c->count - na - nb - nc, p = per_register(c->p[4]);
  Matrix a, b, acc;
  gather(w, &a, c->operands + nd, na, type, m, k, c->p[6] & 1);
  gather(w, &b, c->operands + nd + na, nb, type, k, n, c->p[6] >> 1 & 1);
  gather(w, &acc, c->operands + nd + na + nb, nc, c->p[5], m, n, 0);
  product(w, &a, &b, &acc, c->p, type, c->p[7] & 1);
  for (uint32_t r = 0; r < m * n / p; r++) {
    uint64_t word = 0;
    for (uint32_t j = 0; j < p; j++) word |= pack(&acc, r * p + j, c->p[4], j);
    set_word(w + r / nd, c->operands[r % nd], c->p[4], word);
  }
}

#endif
