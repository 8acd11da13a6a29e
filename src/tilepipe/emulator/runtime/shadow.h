// Per-byte shadow state of shared memory: who wrote and who read each byte last, and when.
//
// A record is one word: epoch (8 bits) | clock (13 bits) | who (11 bits).
//   epoch  the barrier interval; full-block barriers advance it, so records of older epochs are ordered
//   clock  counts the partial synchronisations (bar.warp.sync, named barriers) of `who` inside the epoch
//   who    a thread; for reads also "several lanes of warp w" or "several warps"; for writes also "atomics"
// Record 0 is "never", and epoch 0xff marks bytes that an asynchronous copy still owns. Epochs only grow,
// so one unsigned comparison with the current epoch's base finds every record worth a closer look.
#ifndef TILEPIPE_SHADOW_H
#define TILEPIPE_SHADOW_H
#include "types.h"

enum {
  WHO_BITS = 11,
  CLOCK_BITS = 13,
  EPOCH_SHIFT = WHO_BITS + CLOCK_BITS,
  WHO_MASK = (1 << WHO_BITS) - 1,
  CLOCK_MASK = (1 << CLOCK_BITS) - 1,
  WHO_WARP = 1024,          // + warp number
  WHO_ATOMIC = WHO_MASK - 1,
  WHO_MANY = WHO_MASK,
  LAST_EPOCH = 0xfe,
};
#define PENDING (0xffu << EPOCH_SHIFT)
#define UNOWNED 0xffffffffu  // a byte of a gap between variables

INLINE uint32_t who_of(uint32_t record) { return record & WHO_MASK; }
INLINE uint32_t clock_of(uint32_t record) { return record >> WHO_BITS & CLOCK_MASK; }

// Brings the thread's keys up to its clock and the block's epoch.
INLINE void stamp(Thread *t) {
  t->base = t->block->base;
  t->key = t->base | t->sub << WHO_BITS | t->tid;
  t->warp_key = t->base | t->sub << WHO_BITS | (WHO_WARP + t->warp);
  t->many_key = t->base | CLOCK_MASK << WHO_BITS | WHO_MANY;
}

COLD void report(Thread *t, uint32_t kind, uint32_t other, uint32_t site, uint32_t other_site, uint64_t address) {
  Block *b = t->block;
  for (uint32_t i = 0; i < b->finding_count; i++) {
    Finding *f = &b->findings[i];
    if (f->kind == kind && f->site == site && f->other_site == other_site) {
      f->count++;
      return;
    }
  }
  if (b->finding_count == MAX_FINDINGS) return;
  b->findings[b->finding_count++] =
      (Finding){kind, t->tid, other, site, other_site, b->interval, address, b->number, 1};
}

// Has thread `t` synchronised with `other` after the other's clock stood at `clock`, in this epoch?
INLINE int ordered(const Thread *t, uint32_t other, uint32_t clock) {
  const Block *b = t->block;
  return other == t->tid || (b->partial && b->order[t->tid * b->thread_count + other] > clock);
}

// The same for a record whose `who` may stand for several threads. "Many" and "atomics" have lost the names:
// they count as ordered once `t` has synchronised with every live thread, or with anyone at all, respectively.
COLD int ordered_record(const Thread *t, uint32_t record) {
  const Block *b = t->block;
  uint32_t who = who_of(record), clock = clock_of(record);
  if (who < WHO_WARP) return ordered(t, who, clock);
  if (!b->partial) return 0;
  if (who == WHO_ATOMIC) return t->sub != 0;
  uint32_t first = 0, last = b->thread_count;
  if (who != WHO_MANY) {
    first = (who - WHO_WARP) * 32;
    last = first + 32 < last ? first + 32 : last;
  } else {
    clock = 0;
  }
  for (uint32_t u = first; u < last; u++)
    if (!ordered(t, u, clock)) return 0;
  return 1;
}

// The name to report for a record: a thread, or the first other thread of a warp, or nobody in particular.
INLINE uint32_t name_of(uint32_t record) {
  uint32_t who = who_of(record);
  return who < WHO_WARP ? who : who < WHO_ATOMIC ? (who - WHO_WARP) * 32 : NOBODY;
}

COLD void suspect_read(Thread *t, uint32_t a, uint32_t n, uint32_t site) {
  Block *b = t->block;
  for (uint32_t i = a; i < a + n; i++) {
    uint32_t w = b->writes[i];
    if (w == 0) {
      report(t, UNINITIALISED, NOBODY, site, 0, i);
      return;
    }
    if (w == UNOWNED) {
      report(t, SHARED_BOUNDS, NOBODY, site, 0, i);
      return;
    }
    if (w >= PENDING) {
      report(t, IN_FLIGHT_READ, w & WHO_MASK, site, b->write_sites[i], i);
      return;
    }
    if (w >= b->base && !ordered_record(t, w)) {
      report(t, WRITE_READ, name_of(w), site, b->write_sites[i], i);
      return;
    }
  }
}

COLD void suspect_write(Thread *t, uint32_t a, uint32_t n, uint32_t site) {
  Block *b = t->block;
  for (uint32_t i = a; i < a + n; i++) {
    uint32_t w = b->writes[i], r = b->reads[i];
    if (w == UNOWNED) {
      report(t, SHARED_BOUNDS, NOBODY, site, 0, i);
      return;
    }
    if (w >= PENDING) {
      report(t, IN_FLIGHT_WRITE, w & WHO_MASK, site, b->write_sites[i], i);
      return;
    }
    if (w >= b->base && !ordered_record(t, w)) {
      report(t, WRITE_WRITE, name_of(w), site, b->write_sites[i], i);
      return;
    }
    if (r >= b->base && who_of(r) == WHO_MANY && b->latest[i] >= b->base) {
      // Of many readers the last one is known by name.
      if (!ordered_record(t, b->latest[i])) r = b->latest[i];
    }
    if (r >= b->base && !ordered_record(t, r)) {
      report(t, READ_WRITE, name_of(r), site, b->read_sites[i], i);
      return;
    }
  }
}

// Adds `t` to the readers of each byte: a thread, then a warp, then many.
COLD void join_readers(Thread *t, uint32_t a, uint32_t n, uint32_t site) {
  Block *b = t->block;
  for (uint32_t i = a; i < a + n; i++) {
    uint32_t r = b->reads[i], who = who_of(r);
    if (r < t->base || who == t->tid) {
      b->reads[i] = t->key;
      b->read_sites[i] = (uint16_t)site;
      continue;
    }
    if (who == WHO_MANY) {
      b->latest[i] = t->key;
      b->read_sites[i] = (uint16_t)site;
      continue;
    }
    uint32_t warp = who < WHO_WARP ? who / 32 : who - WHO_WARP;
    uint32_t earlier = clock_of(r) > t->sub ? (clock_of(r) - t->sub) << WHO_BITS : 0;
    b->reads[i] = warp == t->warp ? t->warp_key + earlier : t->many_key;
    b->latest[i] = t->key;
  }
}

typedef uint32_t V1 __attribute__((vector_size(4)));
typedef uint32_t V2 __attribute__((vector_size(8)));
typedef uint32_t V4 __attribute__((vector_size(16)));
typedef uint32_t V8 __attribute__((vector_size(32)));
typedef uint32_t V16 __attribute__((vector_size(64)));
typedef uint16_t S1 __attribute__((vector_size(2)));
typedef uint16_t S2 __attribute__((vector_size(4)));
typedef uint16_t S4 __attribute__((vector_size(8)));
typedef uint16_t S8 __attribute__((vector_size(16)));
typedef uint16_t S16 __attribute__((vector_size(32)));

// The fast paths compare all records of an aligned N-byte access at once. A read that finds only old writes (or
// its own) and is already counted among the readers has nothing to do; the rest is a call.
#define DEFINE_SHADOW(N)                                                                                     \
  INLINE V##N suspicious_writes_##N(const Thread *t, V##N w) {                                               \
    return (V##N)((w - 1) >= (t->base - 1)) & (V##N)(w != t->key);                                           \
  }                                                                                                          \
  NOINLINE uint8_t *slow_read_##N(Thread *t, uint32_t a, uint32_t site) {                                    \
    Block *b = t->block;                                                                                     \
    V##N w = *(const V##N *)(b->writes + a), r = *(const V##N *)(b->reads + a);                              \
    if (UNLIKELY(__builtin_reduce_or(suspicious_writes_##N(t, w)))) suspect_read(t, a, N, site);             \
    if (!__builtin_reduce_or((V##N)(r >= t->base))) {                                                        \
      *(V##N *)(b->reads + a) = (V##N){0} + t->key;                                                          \
      *(S##N *)(b->read_sites + a) = (S##N){0} + (uint16_t)site;                                             \
    } else                                                                                                   \
      join_readers(t, a, N, site);                                                                           \
    return b->shared + a;                                                                                    \
  }                                                                                                          \
  INLINE uint8_t *note_read_##N(Thread *t, uint32_t a, uint32_t site) {                                      \
    Block *b = t->block;                                                                                     \
    V##N w = *(const V##N *)(b->writes + a), r = *(const V##N *)(b->reads + a);                              \
    V##N many = (V##N)(r != t->many_key) | ((V##N){0} + (b->partial ? ~0u : 0));                              \
    V##N news = (V##N)(r != t->key) & (V##N)(r != t->warp_key) & many;                                       \
    if (UNLIKELY(__builtin_reduce_or(suspicious_writes_##N(t, w) | news))) return slow_read_##N(t, a, site); \
    return b->shared + a;                                                                                    \
  }                                                                                                          \
  INLINE uint8_t *mark_written_##N(Thread *t, uint32_t a, uint32_t site) {                                   \
    Block *b = t->block;                                                                                     \
    *(V##N *)(b->writes + a) = (V##N){0} + t->key;                                                           \
    *(S##N *)(b->write_sites + a) = (S##N){0} + (uint16_t)site;                                              \
    return b->shared + a;                                                                                    \
  }                                                                                                          \
  NOINLINE uint8_t *slow_write_##N(Thread *t, uint32_t a, uint32_t site) {                                   \
    suspect_write(t, a, N, site);                                                                            \
    return mark_written_##N(t, a, site);                                                                     \
  }                                                                                                          \
  INLINE uint8_t *note_write_##N(Thread *t, uint32_t a, uint32_t site) {                                     \
    Block *b = t->block;                                                                                     \
    V##N w = *(const V##N *)(b->writes + a), r = *(const V##N *)(b->reads + a);                              \
    V##N bad = ((V##N)(w >= t->base) & (V##N)(w != t->key)) | ((V##N)(r >= t->base) & (V##N)(r != t->key));  \
    if (UNLIKELY(__builtin_reduce_or(bad))) return slow_write_##N(t, a, site);                               \
    return mark_written_##N(t, a, site);                                                                     \
  }
DEFINE_SHADOW(1)
DEFINE_SHADOW(2)
DEFINE_SHADOW(4)
DEFINE_SHADOW(8)
DEFINE_SHADOW(16)

// Advances to the next barrier interval: everything before is ordered for every thread of the block.
static void next_epoch(Block *b) {
  b->interval++;
  if (b->partial) {
    __builtin_memset(b->order, 0, 2ull * b->thread_count * b->thread_count);
    __builtin_memset(b->barrier_clock, 0, 2ull * BARRIERS * MAX_THREADS);
    for (uint32_t i = 0; i < MBARRIERS && b->mbarriers[i].address; i++) {
      __builtin_memset(b->mbarriers[i].now, 0, sizeof b->mbarriers[i].now);
      __builtin_memset(b->mbarriers[i].done, 0, sizeof b->mbarriers[i].done);
    }
    b->partial = 0;
  }
  if (b->base >> EPOCH_SHIFT >= LAST_EPOCH) {  // start counting again: keep only "written" and "pending"
    for (uint32_t i = 0; b->checks && i < b->shared_bytes; i++) {
      if (b->writes[i] && b->writes[i] < PENDING) b->writes[i] = 1;
      b->reads[i] = b->latest[i] = 0;
    }
    b->base = 0;
  }
  b->base += 1u << EPOCH_SHIFT;
  for (uint32_t i = 0; i < b->thread_count; i++) {
    b->threads[i].sub = 0;
    stamp(b->threads + i);
  }
}

// Folds what thread `t` knows into `clock`, and starts a new clock tick of `t`.
static void release_to(Thread *t, uint16_t *clock) {
  Block *b = t->block;
  b->partial = 1;
  const uint16_t *known = b->order + t->tid * b->thread_count;
  for (uint32_t u = 0; u < b->thread_count; u++) clock[u] = known[u] > clock[u] ? known[u] : clock[u];
  clock[t->tid] = t->sub + 1;
  if (t->sub < CLOCK_MASK - 1) t->sub++;  // saturates: later ticks of one interval count as one
  stamp(t);
}

static void acquire_from(Thread *t, const uint16_t *clock) {
  Block *b = t->block;
  __builtin_memcpy(b->order + t->tid * b->thread_count, clock, 2ull * b->thread_count);
}

#endif
