/* SPDX-License-Identifier: Apache-2.0
 *
 * How the settling of a prompt that is nearly all merged grows with its
 * length: one lane of zsmerge:variant=code, without attention, with d = 128
 * and a budget of 4,096. A removal that moves what stands behind it for every
 * merge would show as an exponent of 2.
 */
#include "tests/bench/bench.h"
#include "tests/support/settling.h"

#include <stdio.h>

enum { LENGTHS = 3, RUNS = 9, D = 128, BUDGET = 4096 };

/* The least of a few runs, the first of which finds memory untouched. */
static double least(int tokens, int budget) {
  settling s;
  kv_err e = {0};
  if (settling_open(&s, tokens, D, budget, &e)) bench_fail("%s", e.text);
  double best = settling_run(&s);
  for (int i = 1; i < RUNS; i++) {
    double t = settling_run(&s);
    if (t < best) best = t;
  }
  if (s.lane.n != budget) bench_fail("%d entries are left", s.lane.n);
  settling_close(&s);
  return best;
}

void theme_settle(const bench *b) {
  double tokens[LENGTHS], value[LENGTHS];
  char text[64];
  int divide = b->small ? 8 : 1;
  bench_theme(b, "a prompt's settling, one lane of zsmerge:variant=code", "");
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
