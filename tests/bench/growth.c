/* SPDX-License-Identifier: Apache-2.0
 *
 * How time grows with tokens: of a decode step (linear) and of the prompt's
 * observation (quadratic). The cost of everything else goes by subtraction: a
 * step is the difference of two runs over the same trace, with many and with
 * few steps; the observation is what h2o takes over dense. The exponent is the
 * slope of least squares through the logarithms of both. And of the compression
 * of a prompt that is nearly all merged (linear): one lane of
 * zsmerge:variant=code, without attention, with d = 128 and a budget of 4,096.
 * A removal that moves what stands behind it for every merge would show as an
 * exponent of 2.
 */
#include "tests/bench/bench.h"
#include "tests/support/compression.h"

#include <stdio.h>

enum { POINTS = 4, MANY = 256, FEW = 16 };
enum { LENGTHS = 3, RUNS = 9, D = 128, BUDGET = 4096 }; /* of compressions */

static double step_seconds(const bench *b, int tokens) {
  static row_set many, few;
  child c = bench_replay(b, (replay){.methods = "dense", .threads = 1}, &many);
  child d = bench_replay(
      b, (replay){.methods = "dense", .threads = 1, .prompt = tokens - FEW},
      &few);
  return (c.cpu - d.cpu) / (MANY - FEW);
}

static double observation_seconds(const bench *b, int tokens) {
  static row_set h2o, dense;
  replay how = {.methods = "h2o", .threads = 1, .prompt = tokens - FEW};
  child c = bench_replay(b, how, &h2o);
  how.methods = "dense";
  child d = bench_replay(b, how, &dense);
  return c.cpu - d.cpu;
}

static void show(const bench *b, const char *what, const double *tokens,
                 const double *value, double unit, const char *name,
                 double goal) {
  char text[64];
  bench_theme(b, what, "");
  for (int i = 0; i < POINTS; i++) {
    if (value[i] <= 0)
      bench_fail("%s: a difference is not above 0; the machine is too busy",
                 what);
    snprintf(text, sizeof text, "%.0f tokens", tokens[i]);
    bench_line(b, (line){.what = text, .unit = name, .value = value[i] * unit});
  }
  bench_line(b, (line){.what = "exponent",
                       .unit = "",
                       .value = bench_slope(POINTS, tokens, value),
                       .low = goal - 0.15,
                       .high = goal + 0.15});
}

void theme_growth(const bench *b) {
  double tokens[POINTS], step[POINTS], observation[POINTS];
  for (int i = 0; i < POINTS; i++) {
    int n = (b->small ? 1024 : 2048) << i;
    bench_synth(b, "8", n, MANY);
    tokens[i] = n;
    step[i] = step_seconds(b, n + MANY);
    observation[i] = observation_seconds(b, n + MANY);
  }
  show(b, "a decode step of one layer, dense", tokens, step, 1e3, "ms", 1);
  show(b, "the prompt's observation of one layer, h2o", tokens, observation, 1,
       "s", 2);
}

/* --- a prompt's compression ---------------------------------------------- */

/* The least of a few runs, the first of which finds memory untouched. */
static double least(int tokens, int budget) {
  compression s;
  kv_err e = {0};
  if (compression_open(&s, tokens, D, budget, &e)) bench_fail("%s", e.text);
  double best = compression_run(&s);
  for (int i = 1; i < RUNS; i++) {
    double t = compression_run(&s);
    if (t < best) best = t;
  }
  if (s.lane.n != budget) bench_fail("%d entries are left", s.lane.n);
  compression_close(&s);
  return best;
}

void theme_compress(const bench *b) {
  double tokens[LENGTHS], value[LENGTHS];
  char text[64];
  int divide = b->small ? 8 : 1;
  bench_theme(b, "a prompt's compression, one lane of zsmerge:variant=code",
              "");
  for (int i = 0; i < LENGTHS; i++) {
    int n = (32768 << i) / divide;
    tokens[i] = n;
    value[i] = least(n, BUDGET / divide);
    snprintf(text, sizeof text, "%d tokens, budget %d", n, BUDGET / divide);
    bench_line(b, (line){.what = text,
                         .unit = "s",
                         .value = value[i],
                         .high = n == 131072 ? 2 : 0});
  }
  bench_line(b, (line){.what = "exponent",
                       .unit = "",
                       .value = bench_slope(LENGTHS, tokens, value),
                       .high = 1.1});
}
