// Read-modify-write of one cell. Blocks run on several host threads, so global cells need host atomics.
#ifndef TILEPIPE_ATOMICS_H
#define TILEPIPE_ATOMICS_H
#include "arith.h"

// `codegen/atomic.py` writes these numbers.
enum AtomicOp { A_ADD, A_AND, A_OR, A_XOR, A_MIN, A_MAX, A_EXCH, A_CAS, A_INC, A_DEC };
enum AtomicType { A_UNSIGNED, A_SIGNED, A_FLOAT, A_HALF2, A_HALF, A_BF16X2, A_BF16 };

INLINE uint32_t add_half(uint32_t x, uint32_t y) {
  return float_to_half(half_to_float((uint16_t)x) + half_to_float((uint16_t)y));
}
INLINE uint32_t add_bf16(uint32_t x, uint32_t y) {
  return float_to_bf16(bf16_to_float((uint16_t)x) + bf16_to_float((uint16_t)y));
}

INLINE uint32_t combine32(uint32_t op, uint32_t type, uint32_t old, uint32_t x, uint32_t y) {
  int less = type == A_SIGNED ? (int32_t)x < (int32_t)old : x < old;
  switch (op) {
    case A_ADD:
      switch (type) {
        case A_FLOAT: return as_bits(as_float(old) + as_float(x));
        case A_HALF2: return add_half(old, x) | add_half(old >> 16, x >> 16) << 16;
        case A_BF16X2: return add_bf16(old, x) | add_bf16(old >> 16, x >> 16) << 16;
        case A_HALF: return add_half(old, x);
        case A_BF16: return add_bf16(old, x);
        default: return old + x;
      }
    case A_AND: return old & x;
    case A_OR: return old | x;
    case A_XOR: return old ^ x;
    case A_MIN: return less ? x : old;
    case A_MAX: return less ? old : x;
    case A_EXCH: return x;
    case A_CAS: return old == x ? y : old;
    case A_INC: return old >= x ? 0 : old + 1;
    default: return old == 0 || old > x ? x : old - 1;
  }
}

INLINE uint64_t combine64(uint32_t op, uint32_t type, uint64_t old, uint64_t x, uint64_t y) {
  int less = type == A_SIGNED ? (int64_t)x < (int64_t)old : x < old;
  switch (op) {
    case A_ADD: return type == A_FLOAT ? as_bits64(as_double(old) + as_double(x)) : old + x;
    case A_AND: return old & x;
    case A_OR: return old | x;
    case A_XOR: return old ^ x;
    case A_MIN: return less ? x : old;
    case A_MAX: return less ? old : x;
    case A_EXCH: return x;
    default: return old == x ? y : old;
  }
}

#define DEFINE_ATOMIC(NAME, CELL, COMBINE)                                                                   \
  uint64_t NAME(uint8_t *cell, uint32_t op, uint32_t type, uint64_t x, uint64_t y) {                         \
    CELL old = __atomic_load_n((CELL *)cell, __ATOMIC_RELAXED), next;                                        \
    do next = (CELL)COMBINE(op, type, old, (CELL)x, (CELL)y);                                                \
    while (!__atomic_compare_exchange_n((CELL *)cell, &old, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));   \
    return old;                                                                                              \
  }
DEFINE_ATOMIC(tp_atomic_16, uint16_t, combine32)
DEFINE_ATOMIC(tp_atomic_32, uint32_t, combine32)
DEFINE_ATOMIC(tp_atomic_64, uint64_t, combine64)

#endif
