// Data shared by the scheduler, the memory model, the collectives and the translated kernel.
// `layout.py` mirrors Thread, Block and the tables with ctypes; `tp_sizeof` guards the agreement.
#ifndef TILEPIPE_TYPES_H
#define TILEPIPE_TYPES_H
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#define COLD static __attribute__((noinline, cold))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
  MAX_THREADS = 1024,
  MAX_FINDINGS = 64,
  MAX_OPERANDS = 40,
  BARRIERS = 16,
  MBARRIERS = 64,
  NOBODY = 0xffffffffu,
};

// A generic address carries its space in the top bits; everything else is a host address (global memory).
#define SHARED_WINDOW (1ull << 60)
#define LOCAL_WINDOW (2ull << 60)
#define WINDOW_MASK (15ull << 60)

enum FindingKind {
  WRITE_READ = 1,
  READ_WRITE,
  WRITE_WRITE,
  IN_FLIGHT_READ,
  IN_FLIGHT_WRITE,
  PENDING_AT_EXIT,
  UNINITIALISED,
  SHARED_BOUNDS,
  GLOBAL_BOUNDS,
  LOCAL_BOUNDS,
  MISALIGNED,
  DIVERGENT_BARRIER,
  DIVERGENT_WARP,
  DEADLOCK,
  NON_TERMINATING,
  TRAP,
  BAD_OPERAND,
};

enum SplitKind { AT_BARRIER = 1, AT_COLLECTIVE, AT_YIELD };
enum Status { RUNNABLE = 0, DONE = 16 };  // or a SplitKind

// What a translated kernel returns instead of a split number.
enum { EXITED = 0, STEP_LIMIT = 0xffffffffu, TRAPPED = 0xfffffffeu };

// One allocation of global memory. `high` and `low` are the records of `sharing.h`, by enum Access (0: this array is
// not watched); a unit of 1 << `unit` bytes has one of each. `shared` is set when two blocks meet in one unit.
typedef struct Range {
  uint64_t base, size;
  uint64_t *high[2], *low[2];
  uint32_t unit, shared;
} Range;
enum Access { TOUCH, WRITE, ATOMIC };  // a read, a plain write, and what other blocks may do at the same time

typedef struct Finding {
  uint32_t kind, thread, other, site, other_site, interval;
  uint64_t address, block, count;
} Finding;

typedef struct Copy {
  uint64_t source;
  uint32_t target, size, source_size, group, site, pad;
} Copy;

// A register saved at `slot` bytes into the thread's save area, or an immediate.
typedef struct Operand {
  uint32_t immediate, slot;
  uint64_t value;
} Operand;

typedef struct Collective {
  uint32_t op, site, count, p[8];
  uint32_t pad;
  Operand mask;
  Operand operands[MAX_OPERANDS];
} Collective;

// `whole`: needs every lane of the warp (wmma, mma, ldmatrix); otherwise the lanes of the mask operand.
typedef struct Split {
  uint32_t kind, site, first, count, whole, pad;
} Split;

// Vector clocks of an mbarrier at shared address `address` - 1 (0: the entry is free).
typedef struct Mbarrier {
  uint32_t address;
  uint16_t now[MAX_THREADS], done[MAX_THREADS];
} Mbarrier;

// What `profile.h` counts at one instruction: warp requests to shared memory with the wavefronts that they take,
// at least take, and took at worst; warp requests to global memory with their 32-byte sectors and bytes; barriers.
typedef struct SiteCounts {
  uint64_t shared_requests, wavefronts, least_wavefronts, worst_wavefronts, shared_low;
  uint64_t global_requests, sectors, global_bytes, global_low;
  uint64_t barriers;
} SiteCounts;

// The accesses of one warp between two stops of its threads.
typedef struct Log {
  struct Logged *entries;
  struct Row *rows;
  uint32_t *keys, *most, *now, *lane, *first;  // by site and space
  uint32_t count, capacity, row_capacity, of_lane;
  uint64_t dropped;
} Log;

struct Block;
typedef struct Thread {
  struct Block *block;
  uint8_t *registers, *local;
  uint64_t math, loaded;
  uint32_t tid, x, y, z, lane, warp, sub, resume, status;
  uint32_t key, warp_key, many_key, base;  // records of this thread, its warp and anyone now; the epoch's base
  Copy *copies;
  uint32_t head, tail, capacity, committed;
} Thread;

typedef uint32_t (*Step)(Thread *, uint32_t);

// Shared bytes that no variable owns.
typedef struct {
  uint32_t offset, bytes;
} Gap;

typedef struct Block {
  uint8_t *shared, *parameters, *hints;
  uint32_t *writes, *reads, *latest;  // latest: of bytes with many readers, the last one
  uint16_t *write_sites, *read_sites, *order, *barrier_clock;
  Mbarrier *mbarriers;
  Thread *threads;
  Range *ranges;
  const Gap *gaps;
  Finding *findings;
  const Split *splits;
  const Collective *collectives;
  Step step;
  SiteCounts *profile;  // 0: nothing is counted
  Log *log;
  uint64_t max_steps, steps_left, number, async_bytes, barriers, ticks, local_bytes;
  uint32_t shared_bytes, total_bytes, dynamic_bytes, thread_count, range_count, gap_count;
  uint32_t checks, early, base, interval, partial, finding_count, fatal, stop, moved, spot;
  uint32_t block_dim[3], grid_dim[3], block_id[3], live;
  uint32_t arrived[BARRIERS], arrived_count[BARRIERS];
  uint8_t sink[64];
} Block;

#endif
