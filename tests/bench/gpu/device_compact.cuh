/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme compact: the page manager's one launch a step, for 32 layers of 8 KV
 * heads and 1 to 64 requests that have seen 1,024 tokens, each head with its
 * own counts; as a share of a step of decoding: 16 GB of weights, read, and the
 * attention of 32 layers over fp16 rows. Ring and tables must be those of
 * ref/pages/pages.h.
 */
#ifndef KV_TESTS_BENCH_DEVICE_COMPACT_CUH
#define KV_TESTS_BENCH_DEVICE_COMPACT_CUH

#include "gpu/host/unified.h"
#include "tests/bench/gpu/device_attend.cuh"
extern "C" {
#include "ref/pages/pages.h"
}

constexpr int COMPACT_LAYERS = 32, COMPACT_HEADS = 8 * COMPACT_LAYERS;
constexpr int COMPACT_PROMPT = 1024, COMPACT_STEPS = 64;

typedef struct compacts {
  bench *b;
  kv_gpu_unified u;
  int n;                 /* requests */
  kv_pages_job *job;     /* [n] of the host, for free() */
  kv_pages_count *count; /* [n][COMPACT_HEADS] of the device */
  unsigned *step;        /* how many were drawn */
} compacts;

/* What a prompt leaves in a head, and what a step adds: of ten heads three
 * store a token more as high, three as low, and four put it where another was.
 */
KV_FN kv_pages_count compact_counts(int head, int step) {
  uint64_t x = kv_mix((uint64_t)head);
  kv_pages_count c;
  c.of[KV_HIGH] = 64 + (int32_t)(x % (COMPACT_PROMPT / 2));
  c.of[KV_LOW] =
      (int32_t)((x >> 32) % (uint64_t)(COMPACT_PROMPT - c.of[KV_HIGH]));
  for (int i = 0; i < step; i++) {
    int what = (int)(kv_mix((uint64_t)head << 20 | (unsigned)i) % 10);
    c.of[KV_HIGH] += what < 3;
    c.of[KV_LOW] += what >= 3 && what < 6;
  }
  return c;
}

static __global__ void draw_counts(kv_pages_count *to, int n, unsigned *step) {
  int i = (int)(blockIdx.x * KV_BLOCK + threadIdx.x);
  unsigned own = *step;
  if (i < n) to[i] = compact_counts(i, (int)own);
}

static __global__ void next_counts(unsigned *step) {
  if (threadIdx.x == 0) ++*step;
}

static void compact_draw(void *self, void *stream) {
  const compacts *x = (const compacts *)self;
  int heads = x->n * COMPACT_HEADS;
  KV_LAUNCH(stream, draw_counts, (unsigned)((heads + KV_BLOCK - 1) / KV_BLOCK),
            KV_BLOCK, x->count, heads, x->step);
  KV_LAUNCH(stream, next_counts, 1u, KV_BLOCK, x->step);
}

static void compact_run(void *self, void *stream) {
  const compacts *x = (const compacts *)self;
  x->b->dev->compact(stream, &x->u.p, x->n);
}

static kv_pages_shape compact_shape(int n) {
  kv_pages_shape s = {KV_PAGES_PAPER, n, COMPACT_HEADS, 0, 0, {32, 60}};
  s.table =
      kv_pages_table(s.variant, COMPACT_PROMPT + COMPACT_STEPS, s.tokens, 32);
  s.pages = n * COMPACT_HEADS * s.table;
  return s;
}

static void compact_open(bench *b, int n, compacts *x) {
  kv_pages_shape s = compact_shape(n);
  kv_err e;
  *x = {};
  x->b = b;
  x->n = n;
  x->job = bench_room<kv_pages_job>((size_t)n);
  x->count = bench_take<kv_pages_count>(b, (size_t)n * COMPACT_HEADS);
  x->step = bench_take<unsigned>(b, 1);
  if (kv_gpu_unified_open(b->dev, &s, &x->u, &e)) bench_fail("%s", e.text);
}

static void compact_close(compacts *x) {
  kv_gpu_unified_close(&x->u);
  free(x->job);
  bench_give(x->b);
}

/* One call of all requests. */
static void compact_call(compacts *x, kv_pages_phase phase) {
  for (int i = 0; i < x->n; i++)
    x->job[i] = {phase, i, COMPACT_PROMPT, x->count + i * COMPACT_HEADS,
                 false, 0};
  if (kv_gpu_unified_compact(&x->u, x->n, x->job))
    bench_fail("a request found no page");
  bench_fine(x->b);
}

/* --- the check ------------------------------------------------------------ */

static void compact_same(const compacts *x, const kv_pages *p) {
  const kv_gpu_pages *d = &x->u.p;
  size_t heads = (size_t)x->n * COMPACT_HEADS;
  size_t entries = heads * (size_t)p->shape.table;
  int32_t *ring = bench_get(x->b, d->ring, (size_t)p->shape.pages);
  int32_t *table = bench_get(x->b, d->table, entries);
  bench_same("the free list", ring, p->ring,
             (size_t)p->shape.pages * sizeof *ring);
  bench_same("the tables", table, p->table, entries * sizeof *table);
  free(table);
  free(ring);
}

static void compact_check(bench *b) {
  enum { N = 3 };
  static const kv_pages_phase phase[] = {KV_PAGES_PROMPT, KV_PAGES_COMPRESSED,
                                         KV_PAGES_STEP, KV_PAGES_STEP,
                                         KV_PAGES_END};
  compacts x;
  kv_pages p;
  kv_err e;
  kv_pages_shape s = compact_shape(N);
  kv_pages_count *count = bench_room<kv_pages_count>(N * COMPACT_HEADS);
  kv_pages_job job[N];
  compact_open(b, N, &x);
  if (kv_pages_open(&s, 1, &p, &e)) bench_fail("%s", e.text);
  for (int step = 0; step < 5; step++) {
    for (int i = 0; i < N * COMPACT_HEADS; i++)
      count[i] = compact_counts(i, step);
    for (int i = 0; i < N; i++)
      job[i] = {phase[step], i, COMPACT_PROMPT, count + i * COMPACT_HEADS,
                false,       0};
    kv_pages_compact(&p, N, job);
    compact_draw(&x, b->dev->stream());
    compact_call(&x, phase[step]);
    compact_same(&x, &p);
  }
  kv_pages_close(&p);
  free(count);
  compact_close(&x);
}

/* --- timing --------------------------------------------------------------- */

/* Seconds of a step of decoding. */
static double compact_step(bench *b, int requests) {
  lanes w;
  lanes_case c = {8 * requests, 4, COMPACT_PROMPT, false};
  lanes_open(b, &c, &w);
  lanes_begin(&w, c.tokens);
  double attention = attend_seconds(&w);
  lanes_close(&w);
  return 16e9 / (b->read * 1e9) + COMPACT_LAYERS * attention;
}

static void compact_time(bench *b) {
  static const int requests[] = {1, 8, 64};
  static_assert(WARM_UPS + REPEATS < COMPACT_STEPS, "tables suffice");
  table_theme("compaction of 32 layers x 8 heads / decode step", "step");
  for (int n : requests) {
    compacts x;
    char what[64];
    compact_open(b, n, &x);
    compact_draw(&x, b->dev->stream());
    compact_call(&x, KV_PAGES_PROMPT);
    compact_call(&x, KV_PAGES_COMPRESSED);
    compact_draw(&x, b->dev->stream());
    compact_call(&x, KV_PAGES_STEP); /* the jobs that every lap repeats */
    lap step = {compact_draw, compact_run, &x, false};
    double each = bench_seconds(b, &step);
    compact_close(&x);
    snprintf(what, sizeof what, "a step, %d request%s", n, n > 1 ? "s" : "");
    table_line(
        b, {what, "us", each * 1e6, compact_step(b, n) * 1e6, 0, GOAL_COMPACT});
  }
}

#endif
