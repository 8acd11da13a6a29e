// mbarrier objects: a phase with a count of arrivals, in 64 bits of shared memory (opaque in PTX; here bits 0-19
// are arrivals outstanding, 20-39 arrivals expected of each phase, 63 the parity of the current phase).
#ifndef TILEPIPE_MBARRIER_H
#define TILEPIPE_MBARRIER_H
#include "copies.h"

#define PARITY (1ull << 63)
enum { COUNT_MASK = 0xfffff, EXPECTED_SHIFT = 20 };

// What the arrivals of the current phase, and of the completed ones, have released.
static Mbarrier *clocks_of(Block *b, uint32_t a) {
  for (uint32_t i = 0; i < MBARRIERS; i++) {
    Mbarrier *m = &b->mbarriers[i];
    if (m->address == a + 1) return m;
    if (m->address == 0) {
      m->address = a + 1;
      return m;
    }
  }
  return 0;
}

void tp_mbarrier_init(Thread *t, uint32_t a, uint32_t count, uint32_t site) {
  uint64_t state = count | (uint64_t)count << EXPECTED_SHIFT;
  __builtin_memcpy(shared_span(t, a, 8, 8, site, 1), &state, 8);
  Mbarrier *m = clocks_of(t->block, a);
  if (count == 0 || count > COUNT_MASK || !m) {
    report(t, BAD_OPERAND, NOBODY, site, 0, a);
    return;
  }
  __builtin_memset(m->now, 0, sizeof m->now);
  __builtin_memset(m->done, 0, sizeof m->done);
}

void tp_mbarrier_invalidate(Thread *t, uint32_t a, uint32_t site) {
  __builtin_memset(shared_span(t, a, 8, 8, site, 1), 0xff, 8);
}

// Counts `count` arrivals; returns the state before. `drop` takes the thread out of later phases too.
uint64_t tp_mbarrier_arrive(Thread *t, uint32_t a, uint32_t count, uint32_t drop, uint32_t site) {
  Block *b = t->block;
  uint8_t *cell = tp_shared_atomic(t, a, 8, site);
  uint64_t state, before;
  __builtin_memcpy(&state, cell, 8);
  before = state;
  uint32_t pending = state & COUNT_MASK, expected = state >> EXPECTED_SHIFT & COUNT_MASK;
  Mbarrier *m = clocks_of(b, a);
  if (count > pending || !m) {
    report(t, BAD_OPERAND, NOBODY, site, 0, a);
    return before;
  }
  b->moved = 1;
  if (b->checks) release_to(t, m->now);
  if (drop) expected -= count;
  pending -= count;
  if (pending == 0) {
    pending = expected;
    state ^= PARITY;
    __builtin_memcpy(m->done, m->now, sizeof m->done);
  }
  state = (state & PARITY) | (uint64_t)expected << EXPECTED_SHIFT | pending;
  __builtin_memcpy(cell, &state, 8);
  return before;
}

// cp.async.mbarrier.arrive: an arrival that happens when the thread's copies so far have landed. Without .noinc it
// adds itself to the phase's outstanding arrivals first.
void tp_mbarrier_arrive_on_copies(Thread *t, uint32_t a, uint32_t noinc, uint32_t site) {
  uint8_t *cell = tp_shared_atomic(t, a, 8, site);
  uint64_t state;
  __builtin_memcpy(&state, cell, 8);
  if (!noinc) state++;
  __builtin_memcpy(cell, &state, 8);
  *queue_slot(t) = (Copy){0, a, 0, 0, t->committed, site, 0};
  if (t->block->early) tp_copy_wait(t, 0, 1);
}

// Lands copies up to the first arrival waiting behind them; returns whether there was one.
static int land_to_arrival(Thread *t) {
  for (uint32_t i = t->head; i < t->tail; i++)
    if (t->copies[i].size == 0) {
      while (t->head <= i) complete(t, &t->copies[t->head++]);
      return 1;
    }
  return 0;
}

// Has the phase of a token, or the phase of a parity, completed? If so, what its arrivals released is acquired.
static uint32_t phase_completed(Thread *t, uint32_t a, uint64_t token, uint32_t by_parity, uint32_t site) {
  Block *b = t->block;
  uint64_t state;
  __builtin_memcpy(&state, tp_shared_atomic(t, a, 8, site), 8);
  uint32_t asked = by_parity ? (uint32_t)token & 1 : token >> 63;
  if ((state >> 63) == asked) return 0;
  b->moved = 1;
  Mbarrier *m = clocks_of(b, a);
  if (!b->checks || !m) return 1;
  b->partial = 1;
  uint16_t *known = b->order + t->tid * b->thread_count;
  for (uint32_t u = 0; u < b->thread_count; u++) known[u] = m->done[u] > known[u] ? m->done[u] : known[u];
  return 1;
}

#endif
