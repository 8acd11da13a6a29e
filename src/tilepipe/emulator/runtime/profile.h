// Bank conflicts and coalescing. The n-th access of an instruction by each lane, counted from the last stop of the
// warp's threads, makes one request of the warp.
#ifndef TILEPIPE_PROFILE_H
#define TILEPIPE_PROFILE_H
#include "types.h"

void *realloc(void *, __SIZE_TYPE__);
void free(void *);

enum { SPACE_SHARED, SPACE_GLOBAL };  // the low bit of a key
enum { BANKS = 32, SECTOR_SHIFT = 5, MAX_LOGGED = 1 << 17 };  // accesses of a thread between two stops

typedef struct Logged {
  uint64_t address;
  uint32_t key, rank;
  uint16_t size, lane;
} Logged;

typedef struct Row {
  uint64_t address[32];
  uint16_t size[32];
  uint32_t lanes, key;
} Row;

static void *grown(void *old, uint32_t *capacity, uint32_t need, uint64_t size) {
  if (need <= *capacity) return old;
  *capacity = need > 2 * *capacity ? need : 2 * *capacity;
  return realloc(old, *capacity * size);
}

// Called by code translated to be profiled; a generic address says itself where it points.
void tp_log(Thread *t, uint64_t address, uint32_t size, uint32_t site, uint32_t space) {
  Log *g = t->block->log;
  if (size == 0 || (address & WINDOW_MASK) == LOCAL_WINDOW) return;
  if ((address & WINDOW_MASK) == SHARED_WINDOW) space = SPACE_SHARED, address = (uint32_t)address;
  g->of_lane = g->count && g->entries[g->count - 1].lane == t->lane ? g->of_lane + 1 : 0;
  if (g->of_lane > MAX_LOGGED) {
    g->dropped++;
    return;
  }
  g->entries = grown(g->entries, &g->capacity, g->count + 1, sizeof(Logged));
  g->entries[g->count++] = (Logged){address, site << 1 | space, 0, (uint16_t)size, (uint16_t)t->lane};
}

// Wavefronts of lanes `from` to `to`, which shared memory serves together: the most different words in one bank.
static uint32_t wavefronts_of(const Row *r, uint32_t from, uint32_t to) {
  uint64_t words[BANKS][32];
  uint32_t in_bank[BANKS] = {0}, most = 0;
  for (uint32_t l = from; l < to; l++) {
    if (!(r->lanes >> l & 1)) continue;
    for (uint64_t w = r->address[l] >> 2; w <= (r->address[l] + r->size[l] - 1) >> 2; w++) {
      uint32_t bank = w % BANKS, i = 0;
      while (i < in_bank[bank] && words[bank][i] != w) i++;
      if (i < in_bank[bank]) continue;
      words[bank][in_bank[bank]++] = w;
      most = most > in_bank[bank] ? most : in_bank[bank];
    }
  }
  return most;
}

// 64-bit accesses are served a half warp at a time, 128-bit ones a quarter.
static void count_shared(SiteCounts *s, const Row *r) {
  uint32_t size = r->size[__builtin_ctz(r->lanes)], phases = size > 8 ? 4 : size > 4 ? 2 : 1, total = 0, least = 0;
  for (uint32_t p = 0; p < phases; p++) {
    uint32_t n = wavefronts_of(r, p * (32 / phases), (p + 1) * (32 / phases));
    total += n;
    least += n != 0;
  }
  s->shared_requests++;
  s->wavefronts += total;
  s->least_wavefronts += least;
  if (total > s->worst_wavefronts) s->worst_wavefronts = total;
}

static void count_global(SiteCounts *s, const Row *r) {
  uint64_t sectors[64];
  uint32_t n = 0;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(r->lanes >> l & 1)) continue;
    s->global_bytes += r->size[l];
    for (uint64_t x = r->address[l] >> SECTOR_SHIFT; x <= (r->address[l] + r->size[l] - 1) >> SECTOR_SHIFT; x++) {
      uint32_t i = n;
      while (i && sectors[i - 1] != x) i--;
      if (!i) sectors[n++] = x;
    }
  }
  s->global_requests++;
  s->sectors += n;
}

// Puts the lanes' accesses side by side and counts them.
static void flush_log(Block *b) {
  Log *g = b->log;
  uint32_t kinds = 0, rows = 0;
  for (uint32_t i = 0; i < g->count; i++) {
    Logged *e = &g->entries[i];
    SiteCounts *s = &b->profile[e->key >> 1];
    uint64_t *low = e->key & 1 ? &s->global_low : &s->shared_low;
    if (e->address < *low) *low = e->address;
    if (!g->most[e->key]) g->keys[kinds++] = e->key;
    if (g->lane[e->key] != e->lane + 1u) g->lane[e->key] = e->lane + 1u, g->now[e->key] = 0;
    e->rank = g->now[e->key]++;
    if (g->now[e->key] > g->most[e->key]) g->most[e->key] = g->now[e->key];
  }
  for (uint32_t i = 0; i < kinds; i++) {
    g->first[g->keys[i]] = rows;
    rows += g->most[g->keys[i]];
  }
  g->rows = grown(g->rows, &g->row_capacity, rows, sizeof(Row));
  for (uint32_t i = 0; i < rows; i++) g->rows[i].lanes = 0;
  for (uint32_t i = 0; i < g->count; i++) {
    const Logged *e = &g->entries[i];
    Row *r = &g->rows[g->first[e->key] + e->rank];
    r->address[e->lane] = e->address;
    r->size[e->lane] = e->size;
    r->lanes |= 1u << e->lane;
    r->key = e->key;
  }
  for (uint32_t i = 0; i < rows; i++) {
    SiteCounts *s = &b->profile[g->rows[i].key >> 1];
    if (g->rows[i].key & 1) count_global(s, &g->rows[i]);
    else count_shared(s, &g->rows[i]);
  }
  for (uint32_t i = 0; i < kinds; i++) g->most[g->keys[i]] = g->lane[g->keys[i]] = 0;
  g->count = 0;
}

static void release_log(Log *g) {
  free(g->entries);
  free(g->rows);
}

#endif
