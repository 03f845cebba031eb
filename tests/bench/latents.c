/* SPDX-License-Identifier: Apache-2.0
 *
 * What residual latents cost a processor, one thread, of the FMA peak measured
 * in the same run: the search for references of a whole prompt, and what a
 * decode step makes of the latent vectors that it attends, their means included
 * and not counted. The functions are those of a compression
 * (ref/parts/latents.h), in tiles of KV_LATENT_TILE tokens: each against the
 * references before its last token. Vectors are 2,048 wide, as 8 KV heads of
 * 128 have them, latent vectors 512 in fp16, and the decoder is linear, as
 * swiglu's is. Processor time; KVREPLAY_ISA names another set.
 */
#include "tests/bench/bench.h"

#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/latents.h"
#include "tests/bench/ceiling.h"
#include "tests/support/draw.h"
#include "traces/option/kernels.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  W = 2048,
  LATENT = 512,
  STRIDE = 10,
  NEAREST = 4,
  TILE = KV_LATENT_TILE,
  PEAKS = 8 /* the clock wanders: the peak is the best of so many looks */
};

typedef struct work {
  const kv_kernels *kernels;
  int tokens;      /* that are no references */
  float *x;        /* [tokens][W] */
  kv_references r; /* every STRIDE-th token of the text */
  int32_t *which;  /* [tokens][NEAREST] */
  int32_t *found;  /* [tokens] */
  float *value;    /* [TILE][NEAREST] */
  float *pack;     /* [KV_PACK][W] */
  kv_compressor c; /* its decoder alone */
  kv_tensor of[KV_LATENT_TENSORS];
  kv_delta how;
  int attended;          /* tokens of a step, of those above */
  char *block;           /* [attended][kv_delta_bytes] */
  float *z, *mean, *row; /* [TILE][LATENT], [TILE][W], [TILE][W] */
} work;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *take(size_t count, size_t size) {
  size_t bytes = (count * size + 63) / 64 * 64;
  void *p = aligned_alloc(64, bytes);
  if (!p) bench_fail("not enough memory for vectors and references");
  memset(p, 0, bytes);
  return p;
}

static float *numbers(size_t n, uint64_t *seed) {
  float *out = take(n, sizeof *out);
  for (size_t i = 0; i < n; i++)
    out[i] = (float)(int32_t)(draw(seed) >> 32) * 0x1p-31f;
  return out;
}

/* --- the search ---------------------------------------------------------- */

/* References before token i of those that are none. */
static int32_t before(int i) { return i / (STRIDE - 1) + 1; }

/* GFLOP of the products with references that a token may take. */
static double search(work *w, const kv_kernels *by, int from, int to) {
  int32_t seen[TILE];
  double flop = 0;
  for (int i = from; i < to; i += TILE) {
    int n = to - i < TILE ? to - i : TILE;
    size_t at = (size_t)i;
    for (int j = 0; j < n; j++) {
      seen[j] = before(i + j);
      flop += 2e-9 * W * seen[j];
    }
    by->nearest(n, W, w->x + at * W, seen[n - 1], w->r.row, w->r.norm, seen,
                NEAREST, w->which + at * NEAREST, w->found + at, w->value,
                w->pack);
  }
  return flop;
}

/* The last tile is found by the portable set, too. */
static void check_search(work *w) {
  const kv_kernels *portable;
  int32_t which[TILE * NEAREST];
  int from = w->tokens - TILE;
  const int32_t *last = w->which + (size_t)from * NEAREST;
  search(w, w->kernels, from, w->tokens);
  memcpy(which, last, sizeof which);
  kv_kernels_named("portable", &portable, NULL, NULL);
  search(w, portable, from, w->tokens);
  if (memcmp(which, last, sizeof which) != 0)
    bench_fail("the references found differ from those of the portable set");
}

/* --- a step's tokens ----------------------------------------------------- */

/* Rows of the tokens i .. i + n - 1, as kv_latents_decode makes them. */
static void make_rows(work *w, const kv_kernels *by, int i, int n) {
  size_t at = (size_t)i, size = kv_delta_bytes(&w->how);
  for (int j = 0; j < n; j++)
    kv_delta_get(by, &w->how, w->block + (at + (size_t)j) * size,
                 w->z + (size_t)j * LATENT);
  kv_latents_means(&w->r, W, n, NEAREST, w->which + at * NEAREST, w->found + at,
                   w->mean);
  kv_latents_rows(by, &w->c, w->of, n, w->z, w->mean, NULL, w->row, w->pack);
}

/* GFLOP of the decoder. */
static double rebuild(work *w) {
  for (int i = 0; i < w->attended; i += TILE)
    make_rows(w, w->kernels, i,
              w->attended - i < TILE ? w->attended - i : TILE);
  return 2e-9 * w->attended * W * LATENT;
}

static void check_rows(work *w) {
  const kv_kernels *portable;
  float *want = take(TILE * W, sizeof *want);
  kv_kernels_named("portable", &portable, NULL, NULL);
  make_rows(w, portable, 0, TILE);
  memcpy(want, w->row, TILE * W * sizeof *want);
  make_rows(w, w->kernels, 0, TILE);
  if (memcmp(want, w->row, TILE * W * sizeof *want) != 0)
    bench_fail("rows of latent vectors differ from those of the portable set");
  free(want);
}

/* --- the theme ----------------------------------------------------------- */

static void open_work(work *w, int text, uint64_t *seed) {
  kv_err e;
  if (kv_choose_kernels(&w->kernels, &e) != KV_OK) bench_fail("%s", e.text);
  w->r.n = (text + STRIDE - 1) / STRIDE;
  w->tokens = text - w->r.n;
  w->x = numbers((size_t)w->tokens * W, seed);
  w->r.row = numbers((size_t)w->r.n * W, seed);
  w->r.norm = take((size_t)w->r.n, sizeof *w->r.norm);
  for (int i = 0; i < w->r.n; i++) {
    const float *b = w->r.row + (size_t)i * W;
    w->r.norm[i] = kv_dot(b, b, W) + 0.0f;
  }
  w->which = take((size_t)w->tokens * NEAREST, sizeof *w->which);
  w->found = take((size_t)w->tokens, sizeof *w->found);
  w->value = take(TILE * NEAREST, sizeof *w->value);
  w->pack = take((size_t)KV_PACK * W, sizeof *w->pack);
}

/* A share of 0.17 of the text is attended. */
static void open_step(work *w, int text, uint64_t *seed) {
  w->how =
      (kv_delta){.latent = LATENT, .type = KV_LATENT_FP16, .nearest = NEAREST};
  size_t size = kv_delta_bytes(&w->how);
  float *z = numbers(LATENT, seed);
  w->attended = text * 17 / 100;
  w->c = (kv_compressor){
      .there = 1, .gated = 1, .width = W, .hidden = 1, .latent = LATENT};
  w->of[KV_LATENT_BACK] = (kv_tensor){
      numbers((size_t)W * LATENT, seed), (int64_t)W * LATENT, {W, LATENT}};
  w->block = take((size_t)w->attended, size);
  for (int i = 0; i < w->attended; i++) {
    z[i % LATENT] = -z[i % LATENT];
    kv_delta_put(&w->how, z, w->block + (size_t)i * size);
  }
  free(z);
  w->z = take(TILE * LATENT, sizeof *w->z);
  w->mean = take(TILE * W, sizeof *w->mean);
  w->row = take(TILE * W, sizeof *w->row);
}

static void close_work(work *w) {
  void *all[] = {w->x,     w->r.row, w->r.norm,
                 w->which, w->found, w->value,
                 w->block, w->pack,  w->z,
                 w->mean,  w->row,   (void *)w->of[KV_LATENT_BACK].data};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static double peak_of(const work *w) {
  double peak = 0;
  for (int i = 0; i < PEAKS; i++) {
    double p = fma_peak(w->kernels->name);
    if (p > peak) peak = p;
  }
  return peak;
}

void theme_latents(const bench *b) {
  double rate[2][BENCH_MOST_RUNS];
  int text = b->small ? 2048 : 32768;
  uint64_t seed = 1;
  work w = {0};
  char what[80];
  open_work(&w, text, &seed);
  open_step(&w, text, &seed);
  check_search(&w);
  search(&w, w.kernels, 0, w.tokens); /* and names references for the step */
  check_rows(&w);
  snprintf(what, sizeof what, "FMA peak, %s", w.kernels->name);
  bench_theme(b, "residual latents, w = 2,048, fp32, one thread", what);
  double peak = peak_of(&w);
  for (int i = 0; i < b->runs; i++) {
    double t = now(), done = search(&w, w.kernels, 0, w.tokens);
    rate[0][i] = done / (now() - t);
    t = now();
    done = rebuild(&w);
    rate[1][i] = done / (now() - t);
  }
  snprintf(what, sizeof what, "search of %d tokens, stride 10", text);
  bench_line(b, (line){.what = what,
                       .unit = "GFLOP/s",
                       .value = bench_median(b->runs, rate[0]),
                       .peer = peak,
                       .low = 0.6});
  snprintf(what, sizeof what, "rows of a step's %d tokens", w.attended);
  bench_line(b, (line){.what = what,
                       .unit = "GFLOP/s",
                       .value = bench_median(b->runs, rate[1]),
                       .peer = peak,
                       .low = 0.5});
  close_work(&w);
}
