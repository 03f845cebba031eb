/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager of ref/pages: requests of 32 layers and 8 KV heads, 1,024
 * tokens of prompt, pages of 32 and 60 tokens as LeanKV has them for d = 128,
 * each head with counts of its own. A step, the prompt and the end of all
 * requests, on two threads, beside the same written for one, page by page,
 * which must give the same pages; and a step beside a step of decoding: 16 GB
 * of weights, read, and the attention of 32 layers over fp16 rows.
 */
#include "tests/bench/bench.h"

#include "tests/support/draw.h"
#include "tests/support/pages/pagelist.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  LAYERS = 32,
  KV_HEADS = 8,
  HEADS = LAYERS * KV_HEADS,
  MOST = 64, /* requests */
  PROMPT = 1024,
  STEPS = 256
};

typedef struct batch {
  uint64_t seed;
  int n;
  kv_pages p;
  pagelist *l;
  kv_pages_job job[MOST];
  kv_pages_count *count; /* [n][HEADS] */
} batch;

/* Seconds of the prompt, the median step and the end. */
typedef struct times {
  double prompt, step, end;
} times;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void draw_prompt(batch *x) {
  for (int i = 0; i < x->n * HEADS; i++) {
    int high = 64 + draw_below(&x->seed, PROMPT / 2);
    x->count[i].of[KV_HIGH] = high;
    x->count[i].of[KV_LOW] = draw_below(&x->seed, PROMPT - high);
  }
}

/* Of ten heads three store a token more as high, three as low, and four put it
 * where another was. */
static void draw_step(batch *x) {
  for (int i = 0; i < x->n * HEADS; i++) {
    int what = draw_below(&x->seed, 10);
    x->count[i].of[KV_HIGH] += what < 3;
    x->count[i].of[KV_LOW] += what >= 3 && what < 6;
  }
}

/* One call; list: of the naive manager. */
static double call(batch *x, kv_pages_phase phase, bool list) {
  for (int i = 0; i < x->n; i++)
    x->job[i] = (kv_pages_job){.phase = phase,
                               .request = i,
                               .tokens = PROMPT,
                               .count = x->count + i * HEADS};
  double begin = now();
  int refused = list ? pagelist_compact(x->l, x->n, x->job)
                     : kv_pages_compact(&x->p, x->n, x->job);
  if (refused) bench_fail("a request found no page");
  return now() - begin;
}

static times run(batch *x, bool list) {
  static double step[STEPS];
  times t = {0};
  x->seed = 11;
  draw_prompt(x);
  t.prompt = call(x, KV_PAGES_PROMPT, list);
  t.prompt += call(x, KV_PAGES_COMPRESSED, list);
  for (int i = 0; i < STEPS; i++) {
    draw_step(x);
    step[i] = call(x, KV_PAGES_STEP, list);
  }
  t.step = bench_median(STEPS, step);
  return t;
}

/* Both managers, the end after they were compared. */
static void run_both(batch *x, times *many, times *one) {
  *one = run(x, true);
  *many = run(x, false);
  for (int i = 0; i < x->n; i++)
    if (!pagelist_same(x->l, &x->p, i))
      bench_fail("the page managers differ in request %d", i);
  one->end = call(x, KV_PAGES_END, true);
  many->end = call(x, KV_PAGES_END, false);
  if (!pagelist_same_free(x->l, &x->p))
    bench_fail("the page managers differ in what is free");
}

static void open_batch(int requests, int threads, batch *x) {
  kv_err e;
  kv_pages_shape s = {KV_PAGES_PAPER, requests, HEADS, 0, 0, {32, 60}};
  s.table = kv_pages_table(s.variant, PROMPT + STEPS, s.tokens, 32);
  s.pages = requests * HEADS * s.table;
  *x = (batch){.n = requests,
               .l = pagelist_open(&s),
               .count = kv_zalloc((size_t)requests * HEADS, sizeof *x->count)};
  if (!x->l || !x->count || kv_pages_open(&s, threads, &x->p, &e) != KV_OK)
    bench_fail("not enough memory for the page managers");
}

static void close_batch(batch *x) {
  kv_pages_close(&x->p);
  pagelist_close(x->l);
  free(x->count);
}

static void tell(const bench *b, const char *what, int requests, double one,
                 double many) {
  char text[64];
  snprintf(text, sizeof text, "%s, %d request%s", what, requests,
           requests > 1 ? "s" : "");
  bench_line(b, (line){.what = text,
                       .unit = "us",
                       .value = many * 1e6,
                       .peer = one * 1e6});
}

static times least(times a, times b, bool both) {
  if (!both) return b;
  return (times){fmin(a.prompt, b.prompt), fmin(a.step, b.step),
                 fmin(a.end, b.end)};
}

static void time_requests(const bench *b, int requests, int threads) {
  static batch x; /* too large for a stack */
  times many, one;
  open_batch(requests, threads, &x);
  run_both(&x, &many, &one); /* everything is warm, then the least of five */
  for (int i = 0; i < 5; i++) {
    times m, o;
    run_both(&x, &m, &o);
    many = least(many, m, i > 0);
    one = least(one, o, i > 0);
  }
  close_batch(&x);
  tell(b, "a step", requests, one.step, many.step);
  if (threads == 2 && requests >= 8) {
    double step = bench_step(16e9, requests * HEADS, PROMPT + STEPS / 2);
    bench_line(b, (line){.what = "  its share of a decode step",
                         .unit = "ppm",
                         .value = 1e6 * many.step / step});
  }
  if (requests < MOST) return;
  tell(b, "the prompt", requests, one.prompt, many.prompt);
  tell(b, "the end", requests, one.end, many.end);
}

void theme_compact(const bench *b) {
  static const int requests[] = {1, 8, MOST};
  for (int threads = 1; threads <= 2; threads++) {
    bench_theme(
        b, threads == 1 ? "compaction, one thread" : "compaction, two threads",
        "naive");
    for (int i = 0; i < 3; i++) time_requests(b, requests[i], threads);
  }
}
