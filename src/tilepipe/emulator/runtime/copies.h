// cp.async: asynchronous copies, grouped per thread, which land as late (or as early) as the model allows.
#ifndef TILEPIPE_COPIES_H
#define TILEPIPE_COPIES_H
#include "access.h"

void *realloc(void *, __SIZE_TYPE__);
void free(void *);
uint64_t tp_mbarrier_arrive(Thread *t, uint32_t a, uint32_t count, uint32_t drop, uint32_t site);

static void land(Thread *t, const Copy *c) {
  Block *b = t->block;
  uint8_t *to = b->shared + c->target;
  const uint8_t *from = (const uint8_t *)c->source;
  for (uint32_t i = 0; i < c->size; i++) to[i] = i < c->source_size ? from[i] : 0;
}

static Copy *queue_slot(Thread *t) {
  if (t->tail == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 32;
    t->copies = realloc(t->copies, t->capacity * sizeof(Copy));
  }
  return &t->copies[t->tail++];
}

// Issue: both ends are checked now, and the write counts as if it happened now; then the bytes are in flight.
void tp_copy(Thread *t, uint32_t target, uint64_t source, uint32_t size, uint32_t source_size, uint32_t site) {
  Block *b = t->block;
  if (source_size > size) {
    report(t, BAD_OPERAND, NOBODY, site, 0, source_size);
    source_size = size;
  }
  if (source & (size - 1)) report(t, MISALIGNED, NOBODY, site, 0, source);
  if (!shared_ok(b, target, size)) {
    bad_shared(t, target, size, site);
    return;
  }
  if (source_size && tp_global(t, source, source_size, 1, site, TOUCH) == b->sink) source_size = 0;
  if (b->checks) {
    shared_span(t, target, size, size, site, 1);
    for (uint32_t i = target; i < target + size; i++) b->writes[i] = PENDING | t->tid;
  }
  Copy *c = queue_slot(t);
  *c = (Copy){source, target, size, source_size, t->committed, site, 0};
  b->async_bytes += source_size;
  if (b->early)
    land(t, c);
  else
    __builtin_memset(b->shared + target, 0xff, size);
}

void tp_copy_commit(Thread *t) { t->committed++; }

// From its completion on a copy is a plain write of its thread, visible to others after a barrier only. An entry
// without bytes is an arrival at an mbarrier.
static void complete(Thread *t, const Copy *c) {
  Block *b = t->block;
  if (c->size == 0) {
    tp_mbarrier_arrive(t, c->target, 1, 0, c->site);
    return;
  }
  if (!b->early) land(t, c);
  for (uint32_t i = c->target; b->checks && i < c->target + c->size; i++)
    if (b->writes[i] == (PENDING | t->tid)) {
      b->writes[i] = t->key;
      b->write_sites[i] = (uint16_t)c->site;
    }
}

// Completes copies in issue order: all of them, or the groups older than the newest `keep` committed ones.
void tp_copy_wait(Thread *t, uint32_t keep, uint32_t all) {
  while (t->head < t->tail) {
    const Copy *c = &t->copies[t->head];
    if (!all && !(c->group < t->committed && t->committed - c->group > keep)) return;
    t->head++;
    complete(t, c);
  }
  t->head = t->tail = 0;
}

static void copies_at_exit(Thread *t) {
  if (t->head == t->tail) return;
  report(t, PENDING_AT_EXIT, NOBODY, t->copies[t->head].site, 0, t->copies[t->head].target);
  tp_copy_wait(t, 0, 1);
}

#endif
