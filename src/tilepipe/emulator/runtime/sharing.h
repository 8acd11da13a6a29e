// Global memory that several blocks use: nothing orders the blocks of a launch, so one block's plain write and any
// other block's access of the same bytes race, unless both are atomic.
//
// A record is block << 16 | site. For each unit of an array that the kernel writes four words are kept: the greatest
// record of the plain writes and of the other accesses, and the greatest complement of each, which holds the least.
// Maxima do not depend on the order in which the host threads run the blocks, and neither do the findings.
#ifndef TILEPIPE_SHARING_H
#define TILEPIPE_SHARING_H
#include "types.h"

INLINE int raise(uint64_t *cell, uint64_t record) {
  uint64_t old = __atomic_load_n(cell, __ATOMIC_SEQ_CST);
  if (LIKELY(old >= record)) return 0;
  while (old < record)
    if (__atomic_compare_exchange_n(cell, &old, record, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 1;
  return 0;
}

INLINE uint64_t block_of(uint64_t record) { return record >> 16; }

NOINLINE void note_shared(Thread *t, Range *r, uint64_t a, uint32_t n, uint32_t site, uint32_t access) {
  const uint64_t record = t->block->number << 16 | site, last = (a - r->base + (n ? n - 1 : 0)) >> r->unit;
  const uint32_t kind = access == WRITE;
  for (uint64_t i = (a - r->base) >> r->unit; i <= last; i++) {
    if (!(raise(&r->high[kind][i], record) | raise(&r->low[kind][i], ~record))) continue;
    uint64_t writes = r->high[WRITE][i], touches = r->high[TOUCH][i];
    if (!writes) continue;
    uint64_t writer = block_of(writes);
    if (writer != block_of(~r->low[WRITE][i]) ||
        (touches && (writer != block_of(touches) || writer != block_of(~r->low[TOUCH][i]))))
      r->shared = 1;
  }
}

#endif
