// Runs blocks: each thread up to its next barrier or warp collective, warp by warp.
#ifndef TILEPIPE_SCHEDULER_H
#define TILEPIPE_SCHEDULER_H
#include "mbarrier.h"
#include "tensor.h"

// Rounds in which threads did nothing but poll, after which they wait for what never comes.
enum { MAX_IDLE_POLLS = 10000 };

// What a stop of a thread, at a barrier or a warp instruction, takes of the steps that a block has.
enum { STOP_STEPS = 8 };

static void run_lane(Thread *t) {
  Block *b = t->block;
  b->spot = t->resume ? b->splits[t->resume].site : 0;
  uint32_t split = STEP_LIMIT;
  if (b->steps_left > STOP_STEPS) {
    b->steps_left -= STOP_STEPS;
    split = b->step(t, t->resume);
  }
  if (split == EXITED || split == STEP_LIMIT || split == TRAPPED) {
    t->status = DONE;
    b->live--;
    b->moved = 1;
    if (split == EXITED) {
      copies_at_exit(t);
      return;
    }
    b->fatal = 1;
    if (split == STEP_LIMIT)
      report(t, NON_TERMINATING, NOBODY, b->spot, 0, 0);
    b->stop |= split == STEP_LIMIT;  // other blocks would take as long
    return;
  }
  t->resume = split;
  t->status = b->splits[split].kind;
  b->moved |= t->status != AT_YIELD;
}

static void execute(Thread *w, const Collective *c, uint32_t members) {
  switch (c->op) {
    case SHFL: shfl(w, c, members); break;
    case VOTE: vote(w, c, members); break;
    case MATCH: match(w, c, members); break;
    case REDUX: redux(w, c, members); break;
    case ACTIVEMASK: EACH_LANE(l, members) set(w + l, c->operands[0], members); break;
    case WARPSYNC: warp_sync(w, members); break;
    case LDMATRIX: ldmatrix(w, c); break;
    case MOVMATRIX: movmatrix(w, c); break;
    case MMA: mma(w, c); break;
    case WMMA_LOAD: wmma_move(w, c, 0); break;
    case WMMA_STORE: wmma_move(w, c, 1); break;
    case WMMA_MMA: wmma_mma(w, c); break;
    default: break;
  }
}

// Executes every collective whose lanes have all arrived; returns whether there was one.
static int resolve_collectives(Block *b, Thread *w, uint32_t lanes) {
  uint32_t waiting = 0, live = 0;
  for (uint32_t l = 0; l < lanes; l++) {
    live |= (uint32_t)(w[l].status != DONE) << l;
    waiting |= (uint32_t)(w[l].status == AT_COLLECTIVE) << l;
  }
  int progress = 0;
  while (waiting) {
    uint32_t lead = __builtin_ctz(waiting), id = w[lead].resume, here = 0;
    const Split *s = &b->splits[id];
    const Collective *c = &b->collectives[s->first];
    EACH_LANE(l, waiting) here |= (uint32_t)(w[l].resume == id) << l;
    uint32_t need = here;
    if (s->whole) {
      need = 0xffffffffu;
      if (live != need) report(w + lead, DIVERGENT_WARP, NOBODY, s->site, 0, live);
      need = live;
    } else if (c->op != ACTIVEMASK) {
      uint32_t mask = get(w + lead, c->mask);
      if (!(mask >> lead & 1)) {
        report(w + lead, DIVERGENT_WARP, NOBODY, s->site, 0, mask);
        mask |= 1u << lead;
      }
      need = mask & live;
      EACH_LANE(l, here) if ((get(w + l, c->mask) & live) != need) here &= ~(1u << l);
    }
    waiting &= ~here & ~(1u << lead);
    if ((here & need) != need) continue;
    for (uint32_t i = 0; i < s->count; i++) execute(w, c + i, need);
    EACH_LANE(l, need) w[l].status = RUNNABLE;
    progress = 1;
  }
  return progress;
}

static void run_warp(Block *b, uint32_t first) {
  Thread *w = b->threads + first;
  uint32_t lanes = b->thread_count - first < 32 ? b->thread_count - first : 32;
  do {
    for (uint32_t l = 0; l < lanes && !b->fatal; l++)
      if (w[l].status == RUNNABLE) run_lane(w + l);
    if (b->profile) flush_log(b);
  } while (!b->fatal && !b->stop && resolve_collectives(b, w, lanes));
}

// bar.arrive: counts at a named barrier without waiting.
void tp_barrier_arrive(Thread *t, uint32_t id, uint32_t count, uint32_t site) {
  Block *b = t->block;
  if (id >= BARRIERS || count == 0 || (count & 31)) {
    report(t, BAD_OPERAND, NOBODY, site, 0, id);
    return;
  }
  b->arrived[id]++;
  b->arrived_count[id] = count;
  if (b->checks) release_to(t, b->barrier_clock + id * MAX_THREADS);
}

static void release_barrier(Block *b, uint32_t id, uint32_t waiting, uint32_t whole) {
  uint32_t count = 0, line = 0, mixed = 0;
  Thread *first = 0;
  uint16_t *clock = b->barrier_clock + id * MAX_THREADS;
  for (uint32_t i = 0; i < b->thread_count; i++) {
    Thread *t = b->threads + i;
    if (t->status != AT_BARRIER) continue;
    const Collective *c = &b->collectives[b->splits[t->resume].first];
    if (get(t, c->operands[0]) != id) continue;
    if (!first) first = t, line = t->resume;
    if (t->resume != line && !mixed && (id == 0 || (c->p[2] && t->warp == first->warp))) {
      report(t, DIVERGENT_BARRIER, first->tid, c->site, b->splits[line].site, id);
      mixed = 1;
    }
    if (c->p[0]) count += (get(t, c->operands[3]) & 1) ^ c->p[1];
    if (!whole && b->checks) release_to(t, clock);
  }
  for (uint32_t i = 0; i < b->thread_count; i++) {
    Thread *t = b->threads + i;
    if (t->status != AT_BARRIER) continue;
    const Collective *c = &b->collectives[b->splits[t->resume].first];
    if (get(t, c->operands[0]) != id) continue;
    uint32_t results[] = {0, count, count == waiting, count != 0};
    if (c->p[0]) set(t, c->operands[2], results[c->p[0]]);
    if (!whole && b->checks) acquire_from(t, clock);
    t->status = RUNNABLE;
  }
  __builtin_memset(clock, 0, 2 * MAX_THREADS);
  b->arrived[id] = b->arrived_count[id] = 0;
  b->barriers++;
  if (b->profile) b->profile[b->splits[line].site].barriers++;
  if (whole) next_epoch(b);
}

// Releases the barriers that are complete; returns whether any thread became runnable.
static int resolve_barriers(Block *b) {
  uint32_t waiting[BARRIERS] = {0}, expected[BARRIERS] = {0}, site[BARRIERS];
  Thread *some[BARRIERS];
  for (uint32_t i = 0; i < b->thread_count; i++) {
    Thread *t = b->threads + i;
    if (t->status != AT_BARRIER) continue;
    const Collective *c = &b->collectives[b->splits[t->resume].first];
    uint32_t id = get(t, c->operands[0]);
    if (id >= BARRIERS) {
      report(t, BAD_OPERAND, NOBODY, c->site, 0, id);
      b->fatal = 1;
      return 0;
    }
    waiting[id]++;
    some[id] = t;
    site[id] = c->site;
    if (c->p[3]) expected[id] = get(t, c->operands[1]);
  }
  int progress = 0;
  for (uint32_t id = 0; id < BARRIERS; id++) {
    if (!waiting[id]) continue;
    if (expected[id] ? waiting[id] + b->arrived[id] < expected[id] : waiting[id] != b->live) continue;
    if (!expected[id] && b->live != b->thread_count) {
      uint32_t gone = 0;
      while (b->threads[gone].status != DONE) gone++;
      report(some[id], DIVERGENT_BARRIER, gone, site[id], 0, id);
    }
    release_barrier(b, id, waiting[id], waiting[id] == b->thread_count);
    progress = 1;
  }
  return progress;
}

COLD void report_stuck(Block *b) {
  Thread *first = 0;
  for (uint32_t i = 0; i < b->thread_count; i++) {
    Thread *t = b->threads + i;
    if (t->status == DONE) continue;
    if (!first) first = t;
    if (t->resume == first->resume) continue;
    int barrier = t->status == AT_BARRIER || first->status == AT_BARRIER;
    report(t, barrier ? DIVERGENT_BARRIER : DIVERGENT_WARP, first->tid, b->splits[t->resume].site,
           b->splits[first->resume].site, 0);
    return;
  }
  report(first, DEADLOCK, NOBODY, b->splits[first->resume].site, 0, 0);
}

static void reset_block(Block *b) {
  __builtin_memset(b->shared, 0xff, b->shared_bytes);
  if (b->checks) {
    __builtin_memset(b->writes, 0, 4ull * b->shared_bytes);
    __builtin_memset(b->reads, 0, 4ull * b->shared_bytes);
    __builtin_memset(b->latest, 0, 4ull * b->shared_bytes);
    for (uint32_t i = 0; i < b->gap_count; i++)
      __builtin_memset(b->writes + b->gaps[i].offset, 0xff, 4ull * b->gaps[i].bytes);
  }
  b->fatal = 0;
  b->steps_left = b->max_steps;
  b->live = b->thread_count;
  __builtin_memset(b->arrived, 0, sizeof b->arrived);
  for (uint32_t i = 0; i < MBARRIERS; i++) b->mbarriers[i].address = 0;
  for (uint32_t i = 0; i < b->thread_count; i++) {
    Thread *t = b->threads + i;
    t->tid = i;
    t->x = i % b->block_dim[0];
    t->y = i / b->block_dim[0] % b->block_dim[1];
    t->z = i / (b->block_dim[0] * b->block_dim[1]);
    t->lane = i & 31;
    t->warp = i / 32;
    t->resume = 0;
    t->status = RUNNABLE;
    t->head = t->tail = t->committed = 0;
  }
  b->base = 0;
  next_epoch(b);
  b->interval = 0;
  __builtin_memset(b->threads[0].local, 0xff, b->local_bytes * b->thread_count);
}

// Lets the threads go on that stopped to poll; returns how many.
static uint32_t resume_polls(Block *b) {
  uint32_t polling = 0;
  for (uint32_t i = 0; i < b->thread_count; i++) {
    Thread *t = b->threads + i;
    if (t->status != AT_YIELD) continue;
    const Collective *c = &b->collectives[b->splits[t->resume].first];
    if (c->op == PHASE_TEST) {
      uint32_t a = (c->p[1] ? (uint32_t)get64(t, c->operands[1]) : get(t, c->operands[1])) + c->p[2];
      uint64_t token = c->p[0] ? get(t, c->operands[2]) : get64(t, c->operands[2]);
      set(t, c->operands[0], phase_completed(t, a, token, c->p[0], c->site));
    }
    t->status = RUNNABLE;
    polling++;
  }
  return polling;
}

// Asynchronous arrivals happen as late as possible: when all that is left to do is to wait for them.
static int land_arrivals(Block *b) {
  int landed = 0;
  for (uint32_t i = 0; i < b->thread_count; i++) landed |= land_to_arrival(b->threads + i);
  return landed;
}

static void run_block(Block *b) {
  reset_block(b);
  uint32_t idle = 0;
  while (b->live && !b->fatal && !b->stop) {
    b->moved = 0;
    for (uint32_t w = 0; w < b->thread_count; w += 32) run_warp(b, w);
    if (b->fatal || !b->live || b->stop) return;
    int progress = resolve_barriers(b);
    if (b->fatal) return;
    if (!progress && !b->moved) progress = land_arrivals(b);
    idle = progress || b->moved ? 0 : idle + 1;
    progress |= resume_polls(b) && idle < MAX_IDLE_POLLS;
    if (!progress) {
      report_stuck(b);
      b->stop |= idle != 0;
      return;
    }
  }
}

// A trap, or an assertion that failed with the text at `message`.
void tp_trap(Thread *t, uint64_t message, uint32_t site) { report(t, TRAP, NOBODY, site, 0, message); }

// Runs the numbered blocks in order; returns how many before `stop` was set.
uint64_t tp_run(Block *b, const uint64_t *numbers, uint64_t count) {
  uint64_t done = 0;
  for (; done < count && !b->stop; done++) {
    uint64_t n = b->number = numbers[done];
    b->block_id[0] = (uint32_t)(n % b->grid_dim[0]);
    b->block_id[1] = (uint32_t)(n / b->grid_dim[0] % b->grid_dim[1]);
    b->block_id[2] = (uint32_t)(n / ((uint64_t)b->grid_dim[0] * b->grid_dim[1]));
    run_block(b);
  }
  return done;
}

// Frees what the copies queues and the log allocated.
void tp_release(Block *b) {
  if (b->log) release_log(b->log);
  for (uint32_t i = 0; i < b->thread_count; i++) free(b->threads[i].copies);
}

uint64_t tp_sizeof(uint32_t what) {
  const uint64_t sizes[] = {sizeof(Block), sizeof(Thread), sizeof(Collective), sizeof(Split), sizeof(Finding),
                            sizeof(Range), sizeof(Mbarrier), sizeof(SiteCounts), sizeof(Log),   sizeof(Gap)};
  return sizes[what];
}

#endif
