// Bounds, alignment and shadow checks of every memory space; each returns the host pointer to use.
// A bad access is reported once and redirected to a scratch area, so that the run can go on.
#ifndef TILEPIPE_ACCESS_H
#define TILEPIPE_ACCESS_H
#include "profile.h"
#include "shadow.h"
#include "sharing.h"

COLD uint8_t *redirect(Thread *t) {
  __builtin_memset(t->block->sink, 0xff, sizeof t->block->sink);
  return t->block->sink;
}

COLD uint8_t *bad_shared(Thread *t, uint32_t a, uint32_t n, uint32_t site) {
  int outside = a > t->block->shared_bytes || n > t->block->shared_bytes - a;
  report(t, outside ? SHARED_BOUNDS : MISALIGNED, NOBODY, site, 0, a);
  return redirect(t);
}

INLINE int shared_ok(const Block *b, uint32_t a, uint32_t n) {
  return (a & (n - 1)) == 0 && a < b->shared_bytes && n <= b->shared_bytes - a;
}

// Called by code translated with checks.
#define DEFINE_SHARED(N)                                                                                     \
  uint8_t *tp_shared_load_##N(Thread *t, uint32_t a, uint32_t site) {                                        \
    if (UNLIKELY(!shared_ok(t->block, a, N))) return bad_shared(t, a, N, site);                              \
    return note_read_##N(t, a, site);                                                                        \
  }                                                                                                          \
  uint8_t *tp_shared_store_##N(Thread *t, uint32_t a, uint32_t site) {                                       \
    if (UNLIKELY(!shared_ok(t->block, a, N))) return bad_shared(t, a, N, site);                              \
    return note_write_##N(t, a, site);                                                                       \
  }
DEFINE_SHARED(1)
DEFINE_SHARED(2)
DEFINE_SHARED(4)
DEFINE_SHARED(8)
DEFINE_SHARED(16)

// An access of n contiguous shared bytes with alignment `align`, for collectives, copies and generic addresses.
NOINLINE uint8_t *shared_span(Thread *t, uint32_t a, uint32_t n, uint32_t align, uint32_t site, int write) {
  Block *b = t->block;
  if (UNLIKELY((a & (align - 1)) || a > b->shared_bytes || n > b->shared_bytes - a))
    return bad_shared(t, a, n, site);
  for (uint32_t i = 0, step; b->checks && i < n; i += step) {
    uint32_t at = a + i;
    step = n - i >= 16 && !(at & 15) ? 16 : n - i >= 4 && !(at & 3) ? 4 : 1;
    if (write)
      step == 16 ? tp_shared_store_16(t, at, site)
      : step == 4 ? tp_shared_store_4(t, at, site)
                  : tp_shared_store_1(t, at, site);
    else
      step == 16 ? tp_shared_load_16(t, at, site)
      : step == 4 ? tp_shared_load_4(t, at, site)
                  : tp_shared_load_1(t, at, site);
  }
  return b->shared + a;
}

COLD uint8_t *search_global(Thread *t, uint64_t a, uint32_t n, uint32_t site, uint32_t access) {
  Block *b = t->block;
  for (uint32_t i = 0; i < b->range_count; i++) {
    Range *r = &b->ranges[i];
    if (a - r->base < r->size && n <= r->size - (a - r->base)) {
      b->hints[site] = (uint8_t)i;
      if (r->high[0]) note_shared(t, r, a, n, site, access);
      return (uint8_t *)a;
    }
  }
  report(t, GLOBAL_BOUNDS, NOBODY, site, 0, a);
  return redirect(t);
}

// `n` bytes at host address `a`, which must lie inside one allocation. Each site remembers its last allocation.
uint8_t *tp_global(Thread *t, uint64_t a, uint32_t n, uint32_t align, uint32_t site, uint32_t access) {
  Block *b = t->block;
  if (UNLIKELY(a & (align - 1))) {
    report(t, MISALIGNED, NOBODY, site, 0, a);
    return redirect(t);
  }
  Range *r = &b->ranges[b->hints[site]];
  if (UNLIKELY(a - r->base >= r->size || n > r->size - (a - r->base))) return search_global(t, a, n, site, access);
  if (UNLIKELY(r->high[0] != 0)) note_shared(t, r, a, n, site, access);
  return (uint8_t *)a;
}

uint8_t *tp_local(Thread *t, uint64_t a, uint32_t n, uint32_t site) {
  if (LIKELY(a < t->block->local_bytes && n <= t->block->local_bytes - a)) return t->local + a;
  report(t, LOCAL_BOUNDS, NOBODY, site, 0, a);
  return redirect(t);
}

// Generic addressing: the window in the top bits says which space.
uint8_t *tp_generic(Thread *t, uint64_t a, uint32_t n, uint32_t site, uint32_t access) {
  uint64_t window = a & WINDOW_MASK;
  if (window == SHARED_WINDOW) {
    if (UNLIKELY((uint32_t)((a ^ SHARED_WINDOW) >> 32))) return bad_shared(t, NOBODY, n, site);
    return shared_span(t, (uint32_t)a, n, n, site, access != TOUCH);
  }
  if (window == LOCAL_WINDOW) return tp_local(t, a ^ LOCAL_WINDOW, n, site);
  return tp_global(t, a, n, n, site, access);
}

// An atomic update of shared memory: races with plain accesses of other threads, never with other atomics.
uint8_t *tp_shared_atomic(Thread *t, uint32_t a, uint32_t n, uint32_t site) {
  Block *b = t->block;
  if (UNLIKELY(!shared_ok(b, a, n))) return bad_shared(t, a, n, site);
  if (!b->checks) return b->shared + a;
  uint32_t atomic = b->base | t->sub << WHO_BITS | WHO_ATOMIC;
  for (uint32_t i = a; i < a + n; i++) {
    uint32_t w = b->writes[i];
    if (w == 0)
      report(t, UNINITIALISED, NOBODY, site, 0, i);
    else if (w >= b->base && who_of(w) != WHO_ATOMIC)
      suspect_write(t, i, 1, site);
    else if (b->reads[i] >= b->base)
      suspect_write(t, i, 1, site);
    if (w == t->key) continue;  // its own plain write of this interval still races with the others' atomics
    b->writes[i] = atomic;
    b->write_sites[i] = (uint16_t)site;
  }
  return b->shared + a;
}

uint8_t *tp_generic_atomic(Thread *t, uint64_t a, uint32_t n, uint32_t site) {
  if ((a & WINDOW_MASK) == SHARED_WINDOW) return tp_shared_atomic(t, (uint32_t)a, n, site);
  return tp_generic(t, a, n, site, ATOMIC);
}

#endif
