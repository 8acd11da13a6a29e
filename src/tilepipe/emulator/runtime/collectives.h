// Warp collectives: the lanes of `members` have all stopped at the same instruction; their operands are in
// their save areas.
#ifndef TILEPIPE_COLLECTIVES_H
#define TILEPIPE_COLLECTIVES_H
#include "access.h"

// `codegen/collective.py` writes these numbers.
enum CollectiveOp {
  SHFL = 1,   // p0 mode (0 up, 1 down, 2 bfly, 3 idx), p1 has a predicate result: d, [p,] a, b, c
  VOTE,       // p0 mode (0 all, 1 any, 2 uni, 3 ballot), p1 negate: d, a
  MATCH,      // p0 mode (0 any, 1 all), p1 has a predicate result, p2 bytes: d, [p,] a
  REDUX,      // p0 operation (add, min, max, and, or, xor), p1 signed: d, a
  ACTIVEMASK, // d
  WARPSYNC,
  LDMATRIX,   // p0 matrices, p1 transposed, p2 generic address, p3 offset: d..., address
  MOVMATRIX,  // d, a
  MMA,        // p0 M, p1 N, p2 K, p3 input type, p4 output type, p5 accumulator type, p6 unsigned bits, p7 saturate
  WMMA_LOAD,
  WMMA_MMA,
  WMMA_STORE,
  BARRIER,    // p0 reduction (0 none, 1 popc, 2 and, 3 or), p1 negate, p2 aligned, p3 count given: id, count, d, a
  YIELD,
  PHASE_TEST, // p0 by parity, p1 generic address, p2 offset: d, address, token or parity
};

INLINE uint32_t get(const Thread *t, Operand o) {
  return o.immediate ? (uint32_t)o.value : *(const uint32_t *)(t->registers + o.slot);
}
INLINE uint64_t get64(const Thread *t, Operand o) {
  return o.immediate ? o.value : *(const uint64_t *)(t->registers + o.slot);
}
// An immediate destination is the sink `_`.
INLINE void set(Thread *t, Operand o, uint32_t x) {
  if (!o.immediate) *(uint32_t *)(t->registers + o.slot) = x;
}
INLINE void set64(Thread *t, Operand o, uint64_t x) {
  if (!o.immediate) *(uint64_t *)(t->registers + o.slot) = x;
}

#define EACH_LANE(l, members) for (uint32_t l = 0; l < 32; l++) if ((members) >> l & 1)

static void shfl(Thread *w, const Collective *c, uint32_t members) {
  uint32_t value[32], ok[32];
  const Operand *o = c->operands + 1 + c->p[1];
  EACH_LANE(l, members) {
    uint32_t b = get(w + l, o[1]) & 31, limits = get(w + l, o[2]);
    uint32_t clamp = limits & 31, segment = limits >> 8 & 31;
    uint32_t max = (l & segment) | (clamp & ~segment), min = l & segment, from;
    switch (c->p[0]) {
      case 0: from = l - b; ok[l] = (int)from >= (int)max; break;
      case 1: from = l + b; ok[l] = from <= max; break;
      case 2: from = l ^ b; ok[l] = from <= max; break;
      default: from = min | (b & ~segment); ok[l] = from <= max; break;
    }
    if (!ok[l]) from = l;
    if (!(members >> (from & 31) & 1)) report(w + l, DIVERGENT_WARP, (w + (from & 31))->tid, c->site, 0, from);
    value[l] = get(w + (members >> (from & 31) & 1 ? from & 31 : l), o[0]);
  }
  EACH_LANE(l, members) {
    set(w + l, c->operands[0], value[l]);
    if (c->p[1]) set(w + l, c->operands[1], ok[l]);
  }
}

static void vote(Thread *w, const Collective *c, uint32_t members) {
  uint32_t ballot = 0;
  EACH_LANE(l, members) ballot |= ((get(w + l, c->operands[1]) & 1) ^ c->p[1]) << l;
  uint32_t results[] = {ballot == members, ballot != 0, ballot == members || ballot == 0, ballot};
  EACH_LANE(l, members) set(w + l, c->operands[0], results[c->p[0]]);
}

static void match(Thread *w, const Collective *c, uint32_t members) {
  const Operand source = c->operands[1 + c->p[1]];
  uint32_t result[32], all = 1;
  EACH_LANE(l, members) {
    result[l] = 0;
    EACH_LANE(m, members) {
      uint64_t x = c->p[2] == 8 ? get64(w + l, source) : get(w + l, source);
      uint64_t y = c->p[2] == 8 ? get64(w + m, source) : get(w + m, source);
      result[l] |= (uint32_t)(x == y) << m;
    }
    all &= result[l] == members;
  }
  EACH_LANE(l, members) {
    set(w + l, c->operands[0], c->p[0] ? (all ? members : 0) : result[l]);
    if (c->p[1]) set(w + l, c->operands[1], all);
  }
}

static void redux(Thread *w, const Collective *c, uint32_t members) {
  uint32_t sum = 0, first = 1;
  EACH_LANE(l, members) {
    uint32_t x = get(w + l, c->operands[1]);
    int less = c->p[1] ? (int32_t)x < (int32_t)sum : x < sum;
    if (first) sum = x;
    else switch (c->p[0]) {
      case 0: sum += x; break;
      case 1: sum = less ? x : sum; break;
      case 2: sum = less || x == sum ? sum : x; break;
      case 3: sum &= x; break;
      case 4: sum |= x; break;
      default: sum ^= x; break;
    }
    first = 0;
  }
  EACH_LANE(l, members) set(w + l, c->operands[0], sum);
}

// Orders everything the members did before against everything they do after.
static void warp_sync(Thread *w, uint32_t members) {
  Block *b = w->block;
  if (!b->checks) return;
  uint16_t clock[MAX_THREADS];
  __builtin_memset(clock, 0, 2ull * b->thread_count);
  EACH_LANE(l, members) release_to(w + l, clock);
  EACH_LANE(l, members) acquire_from(w + l, clock);
}

static void ldmatrix(Thread *w, const Collective *c) {
  const Operand address = c->operands[c->p[0]];
  for (uint32_t m = 0; m < c->p[0]; m++) {
    uint16_t rows[8][8];
    for (uint32_t r = 0; r < 8; r++) {
      Thread *t = w + m * 8 + r;
      uint64_t a = c->p[2] ? get64(t, address) : get(t, address);
      if (t->block->profile) tp_log(t, (uint32_t)a + c->p[3], 16, c->site, SPACE_SHARED);
      __builtin_memcpy(rows[r], shared_span(t, (uint32_t)a + c->p[3], 16, 16, c->site, 0), 16);
    }
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t r = l >> 2, k = (l & 3) * 2;
      set(w + l, c->operands[m], c->p[1] ? rows[k][r] | (uint32_t)rows[k + 1][r] << 16
                                         : rows[r][k] | (uint32_t)rows[r][k + 1] << 16);
    }
  }  if (w->block->profile) flush_log(w->block);
}

static void movmatrix(Thread *w, const Collective *c) {
  uint16_t rows[8][8];
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t x = get(w + l, c->operands[1]);
    rows[l >> 2][(l & 3) * 2] = (uint16_t)x;
    rows[l >> 2][(l & 3) * 2 + 1] = (uint16_t)(x >> 16);
  }
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t r = l >> 2, k = (l & 3) * 2;
    set(w + l, c->operands[0], rows[k][r] | (uint32_t)rows[k + 1][r] << 16);
  }
}

#endif
