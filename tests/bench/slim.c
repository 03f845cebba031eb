/* SPDX-License-Identifier: Apache-2.0
 *
 * Making traces smaller: what copies is compared with a plain copy of the same
 * file to the same disk, flushed as ours are; its memory with one layer's q, k
 * and v and 64 MB; column sums, on one thread, with the FMA peak, where a pair
 * of a row and a token that it sees counts for 2 d flops, its product, and all
 * else for nothing.
 */
#include "tests/bench/bench.h"

#include "tests/bench/ceiling.h"
#include "traces/trace/colsum.h"
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 20, PEAKS = 8 };

static char from[512], to[512];

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- copies --------------------------------------------------------------- */

/* Seconds; *bytes: of the file. */
static double copy(double *bytes) {
  static char piece[PIECE];
  double start = now(CLOCK_MONOTONIC);
  remove(to);
  int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0600);
  ssize_t n = -1;
  for (*bytes = 0; in >= 0 && out >= 0 && (n = read(in, piece, PIECE)) > 0;
       *bytes += (double)n)
    if (write(out, piece, (size_t)n) != n) break;
  if (n != 0 || fsync(out) || close(out) || close(in))
    bench_fail("cannot copy %s", from);
  return now(CLOCK_MONOTONIC) - start;
}

static child slim(const bench *b, char *option, char *value) {
  remove(to);
  char *argv[] = {"traces/kvtrace", "slim", from, "-q", "-o", to,
                  option,           value,  NULL};
  return bench_command(b, argv);
}

static void against_copy(const bench *b) {
  double ours[BENCH_MOST_RUNS], theirs[BENCH_MOST_RUNS], bytes = 0;
  copy(&bytes); /* the file is in memory from here on */
  for (int i = 0; i < b->runs; i++) {
    theirs[i] = copy(&bytes);
    ours[i] = slim(b, "--drop-tokens", NULL).wall;
  }
  bench_line(b, (line){.what = "without column sums / a copy, flushed",
                       .unit = "GB/s",
                       .value = 1e-9 * bytes / bench_median(b->runs, ours),
                       .peer = 1e-9 * bytes / bench_median(b->runs, theirs),
                       .low = 0.5});
}

static void memory(const bench *b, const kv_trace *t) {
  const kv_shape *s = &t->shape;
  double layer = 2.0 * s->d * s->n_tokens * (s->n_heads + 2 * s->n_kv_heads);
  child c = slim(b, "--rows", "last=256,decode");
  bench_line(b, (line){.what = "with column sums: resident at most, of bound",
                       .unit = "MB",
                       .value = 1e-6 * c.resident,
                       .peer = 1e-6 * layer + 64,
                       .high = 1});
}

/* --- column sums ---------------------------------------------------------- */

/* Seconds of the layer's first KV head. */
static double sum_up(const kv_trace *t, const kv_shape *s,
                     const kv_kernels *kernels, int64_t *out) {
  kv_err e;
  double start = now(CLOCK_THREAD_CPUTIME_ID);
  if (kv_colsum_head(s, &t->layer[0].data, 0, kernels, NULL, out, &e))
    bench_fail("%s", e.text);
  return now(CLOCK_THREAD_CPUTIME_ID) - start;
}

/* Both sets of kernels give the same, on a shorter prompt. */
static void check_sums(const kv_trace *t, const kv_kernels *kernels,
                       int64_t *out) {
  const kv_kernels *portable;
  kv_shape s = t->shape;
  s.prompt_len = 512;
  size_t n = (size_t)(kv_group(&s) * s.prompt_len);
  kv_kernels_named("portable", &portable, NULL, NULL);
  sum_up(t, &s, kernels, out);
  sum_up(t, &s, portable, out + n);
  if (memcmp(out, out + n, n * sizeof *out) != 0)
    bench_fail("column sums differ from those of the portable set");
}

static void sums(const bench *b, const kv_trace *t) {
  const kv_kernels *kernels = kv_kernels_best();
  const kv_shape *s = &t->shape;
  double rate[BENCH_MOST_RUNS], peak = 0, p = s->prompt_len;
  double flop = 1e-9 * 2 * s->d * kv_group(s) * p * (p + 1) / 2;
  char what[80];
  int64_t *out =
      calloc((size_t)kv_group(s) * (size_t)s->prompt_len + 4096, sizeof *out);
  if (!out) bench_fail("not enough memory for column sums");
  omp_set_num_threads(1);
  check_sums(t, kernels, out);
  for (int i = 0; i < PEAKS; i++) {
    double one = fma_peak(kernels->name);
    if (one > peak) peak = one;
  }
  for (int i = 0; i < b->runs; i++) rate[i] = flop / sum_up(t, s, kernels, out);
  snprintf(what, sizeof what, "column sums, d = %d, / FMA peak", s->d);
  bench_line(b, (line){.what = what,
                       .unit = "GFLOP/s",
                       .value = bench_median(b->runs, rate),
                       .peer = peak,
                       .low = 0.55});
  free(out);
}

void theme_slim(const bench *b) {
  kv_trace *t = NULL;
  kv_err e;
  char title[80];
  int prompt = b->small ? 2048 : 8192;
  bench_synth(b, "8,24", prompt, 256);
  snprintf(from, sizeof from, "%s/trace.safetensors", b->folder);
  snprintf(to, sizeof to, "%s/slim.safetensors", b->folder);
  if (kv_trace_open(from, &t, &e)) bench_fail("%s", e.text);
  snprintf(title, sizeof title, "kvtrace slim, %d + 256 tokens, 2 layers",
           prompt);
  bench_theme(b, title, "bound");
  against_copy(b);
  memory(b, t);
  sums(b, t);
  kv_trace_close(t);
}
