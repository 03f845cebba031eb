/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction on a device: one launch a step for all heads of all layers and
 * requests. ref/pages/plan.h defines what a head does; the ring, the tables and
 * the books after a call are those of ref/pages/pages.c, bit for bit, in any
 * order of blocks.
 *
 *   plan   every head: the pages that it will hold; the sums of a part
 *   (last) whom the pages suffice for; prefix sums over all parts
 *   give   what goes back is written into the ring, and tables are turned round
 *   take   ids are read from it, counts are written
 *   (last) start, count and books; what a call counts is zero again
 *
 * A part is 128 heads of a request, one a thread, and each of its phases is
 * done by one block. Given pages may be taken in the same call, so every take
 * waits for every give, and every give for every plan. A barrier of the whole
 * grid would wait for ever if not all blocks run at once. Instead, a block
 * draws a ticket when it begins: tickets of the first third plan, of the second
 * give, of the last take. A block waits only for lower tickets, and these are
 * held by blocks that already run; so the lowest unfinished ticket never waits,
 * on one multiprocessor or a hundred. On the executor, where one block ends
 * before the next begins, nothing ever waits.
 *
 * Only integers are added, and atomics only count: no result depends on the
 * order of blocks. A step reads and writes some 40 bytes a head.
 */
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"

constexpr int PART = KV_GPU_PART; /* heads */
static_assert(PART == KV_BLOCK, "a thread each");

/* Heads `first` on of a job, n of them; where they begin in held, store and
 * table, and in goal. */
typedef struct slice {
  const kv_pages_job *job;
  int part, first, n;
  int64_t held, goal;
} slice;

static __device__ slice slice_of(const kv_gpu_pages &p, int i) {
  const kv_pages_job *job = &p.job[i / p.parts];
  int first = i % p.parts * PART, heads = p.shape.heads, left = heads - first;
  return {job,
          i,
          first,
          left < PART ? left : PART,
          (int64_t)job->request * heads + first,
          (int64_t)(i / p.parts) * heads + first};
}

/* --- who waits for whom --------------------------------------------------- */

/* The next ticket, the same in all threads. */
static __device__ int draw_ticket(const kv_gpu_pages &p) {
  KV_SHARED(unsigned, ticket, 1);
  if (kv_thread() == 0) ticket[0] = atomicAdd(&p.front->ticket, 1u);
  __syncthreads();
  return (int)ticket[0];
}

/* What the block wrote is there for all that see the number. Returns whether it
 * was the last of `all`, which sees what all others wrote. */
static __device__ bool arrive(unsigned *done, int all) {
  KV_SHARED(unsigned, before, 1);
  __syncthreads();
  if (kv_thread() == 0) {
    __threadfence();
    before[0] = atomicAdd(done, 1u);
    __threadfence();
  }
  __syncthreads();
  return before[0] + 1 == (unsigned)all;
}

static __device__ void wait_for(const unsigned *done, int all) {
  if (kv_thread() == 0) {
    while (*(const volatile unsigned *)done < (unsigned)all) {
    }
    __threadfence();
  }
  __syncthreads();
}

/* --- plan ----------------------------------------------------------------- */

static __device__ void plan(const kv_gpu_pages &p, const slice &s) {
  int h = kv_thread(), give = 0, take = 0;
  if (h < s.n) {
    kv_pages_count now = p.held[s.held + h], store = p.store[s.held + h];
    kv_pages_count goal =
        kv_pages_goal(&p.shape, s.job, s.first + h, &now, &store);
    kv_pages_change c = kv_pages_between(&now, &goal);
    p.goal[s.goal + h] = goal;
    give = c.give[KV_HIGH] + c.give[KV_LOW];
    take = c.take[KV_HIGH] + c.take[KV_LOW];
  }
  give = kv_block_sum(give);
  take = kv_block_sum(take);
  if (h == 0) p.part[s.part] = {give, take};
}

/* --- coordinate: one block, after all have planned ------------------------ */

/* The sums of every job. Returns the pages that are there for the first: those
 * that are free, and what comes back from those that take nothing. */
static __device__ int64_t sum_jobs(const kv_gpu_pages &p, int n) {
  int64_t room = 0;
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    kv_pages_part sum = {0, 0};
    for (int i = j * p.parts; i < (j + 1) * p.parts; i++) {
      sum.give += p.part[i].give;
      sum.take += p.part[i].take;
    }
    p.sum[j] = sum;
    p.job[j].wanted = sum.take;
    p.job[j].refused = false;
    if (sum.take == 0) room += sum.give;
  }
  return p.front->count + kv_block_sum(room);
}

/* Does every job find its pages, if all before it do? */
static __device__ bool suffices(const kv_gpu_pages &p, int n, int64_t room) {
  bool lacks = false;
  for (int first = 0; first < n; first += KV_BLOCK) {
    int j = first + kv_thread();
    kv_pages_part s = {0, 0};
    if (j < n) s = p.sum[j];
    int64_t total, left = s.take > 0 ? s.give - s.take : 0;
    int64_t before = kv_block_before(left, &total);
    lacks |= s.take > 0 && room + before + left < 0;
    room += total;
  }
  return !kv_block_any(lacks);
}

/* Whom the pages suffice for, in the order of the batch; one thread. */
static __device__ void admit(const kv_gpu_pages &p, int n, int64_t room) {
  for (int j = 0; j < n; j++) {
    kv_pages_part s = p.sum[j];
    bool refused = s.take > 0 && s.take > room + s.give;
    p.job[j].refused = refused;
    if (s.take > 0 && !refused) room += s.give - s.take;
  }
}

/* The exclusive prefix sums over all parts, in place. */
static __device__ void place_parts(const kv_gpu_pages &p, int n) {
  kv_pages_part base = {0, 0}, total;
  for (int first = 0; first < n * p.parts; first += KV_BLOCK) {
    int i = first + kv_thread();
    bool mine = i < n * p.parts && !p.job[i / p.parts].refused;
    kv_pages_part own = {0, 0};
    if (mine) own = p.part[i];
    int64_t give = base.give + kv_block_before(own.give, &total.give);
    int64_t take = base.take + kv_block_before(own.take, &total.take);
    if (mine) p.part[i] = {give, take};
    base.give += total.give;
    base.take += total.take;
  }
  if (kv_thread() > 0) return;
  p.front->give = base.give;
  p.front->take = base.take;
}

static __device__ void coordinate(const kv_gpu_pages &p, int n) {
  int64_t room = sum_jobs(p, n);
  if (!suffices(p, n, room) && kv_thread() == 0) admit(p, n, room);
  __syncthreads();
  place_parts(p, n);
  arrive(&p.front->planned, 0);
}

/* --- act ------------------------------------------------------------------ */

/* Every head has n of something: calls move(head, x, at) for all x below n of
 * all heads, shared out among the threads; `at` were before it. */
template <class Move> static __device__ void spread(int n, const Move &move) {
  KV_SHARED(int, end, PART);
  int total, before = kv_block_before(n, &total);
  end[kv_thread()] = before + n;
  __syncthreads();
  for (int at = kv_thread(); at < total; at += KV_BLOCK) {
    int head = 0;
    for (int step = PART / 2; step; step /= 2)
      if (end[head + step - 1] <= at) head += step;
    move(head, at - (head ? end[head - 1] : 0), at);
  }
}

static __device__ int32_t *row_of(const kv_gpu_pages &p, const slice &s,
                                  int head) {
  return p.table + (s.held + head) * p.shape.table;
}

static __device__ kv_pages_change change_of(const kv_gpu_pages &p,
                                            const slice &s, int head) {
  kv_pages_change none = {};
  if (head >= s.n) return none;
  return kv_pages_between(&p.held[s.held + head], &p.goal[s.goal + head]);
}

static __device__ int32_t *place(const kv_gpu_pages &p, int64_t at) {
  return &p.ring[kv_pages_place(p.front->start, at, p.shape.pages)];
}

static __device__ void give(const kv_gpu_pages &p, const slice &s) {
  int64_t to = p.front->count + p.part[s.part].give;
  kv_pages_change own = change_of(p, s, kv_thread());
  spread(own.give[KV_HIGH] + own.give[KV_LOW], [&](int head, int x, int at) {
    kv_pages_change c = change_of(p, s, head);
    const kv_pages_count *goal = &p.goal[s.goal + head];
    *place(p, to + at) =
        row_of(p, s, head)[kv_pages_from(p.shape.table, &c, goal, x)];
  });
  /* What is given may lie where pages are turned round: spread begins with a
   * barrier. */
  spread(own.turn, [&](int head, int x, int) {
    kv_pages_turn(row_of(p, s, head), p.shape.table, &p.held[s.held + head],
                  &p.goal[s.goal + head], x);
  });
}

static __device__ void take(const kv_gpu_pages &p, const slice &s) {
  int64_t from = p.part[s.part].take;
  int h = kv_thread();
  kv_pages_change own = change_of(p, s, h);
  spread(own.take[KV_HIGH] + own.take[KV_LOW], [&](int head, int x, int at) {
    kv_pages_change c = change_of(p, s, head);
    const kv_pages_count *now = &p.held[s.held + head];
    row_of(p, s, head)[kv_pages_to(p.shape.table, &c, now, x)] =
        *place(p, from + at);
  });
  int turned = kv_block_sum(own.turn);
  if (h == 0) atomicAdd(&p.front->turned, (unsigned long long)turned);
  if (h >= s.n) return;
  p.held[s.held + h] = p.goal[s.goal + h];
  kv_pages_remember(s.job, s.first + h, &p.store[s.held + h]);
}

/* --- the whole ------------------------------------------------------------ */

static __device__ void close_books(const kv_gpu_pages &p, int n) {
  kv_gpu_pages_front *f = p.front;
  int refused = 0;
  for (int j = kv_thread(); j < n; j += KV_BLOCK) refused += p.job[j].refused;
  refused = kv_block_sum(refused);
  if (kv_thread() > 0) return;
  f->refused = refused;
  f->count += (int32_t)(f->give - f->take);
  f->start = (int32_t)((f->start + f->take) % p.shape.pages);
  f->books.taken += f->take;
  f->books.given += f->give;
  f->books.turned += (int64_t)f->turned;
  f->books.peak = kv_pages_larger(f->books.peak, p.shape.pages - f->count);
  f->ticket = f->planned = f->given = f->taken = 0;
  f->turned = 0;
}

static __global__ void compact(const __grid_constant__ kv_gpu_pages p, int n) {
  int ticket = draw_ticket(p), all = n * p.parts, phase = ticket / all;
  kv_gpu_pages_front *f = p.front;
  slice s = slice_of(p, ticket % all);
  if (phase == 0) {
    plan(p, s);
    if (arrive(&f->planned, all)) coordinate(p, n);
    return;
  }
  wait_for(&f->planned, all + 1);
  if (phase == 1) {
    if (!s.job->refused) give(p, s);
    arrive(&f->given, all);
    return;
  }
  wait_for(&f->given, all);
  if (!s.job->refused) take(p, s);
  if (arrive(&f->taken, all)) close_books(p, n);
}

extern "C" void kv_gpu_start_compact(void *stream, const kv_gpu_pages *p,
                                     int n) {
  if (n > 0)
    KV_LAUNCH(stream, compact, (unsigned)(3 * n * p->parts), KV_BLOCK, *p, n);
}
