/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the device benchmark: what, measured, the ceiling of the same
 * run, their ratio, the goal for it, whether it is met; the same as CSV.
 */
#ifndef KV_TESTS_BENCH_DEVICE_TABLE_CUH
#define KV_TESTS_BENCH_DEVICE_TABLE_CUH

#include "tests/bench/gpu/device.cuh"

/* The goals of the themes. */
static constexpr double GOAL_ATTEND = 0.85, GOAL_ATTEND_8 = 0.65,
                        GOAL_TOP = 0.6, GOAL_KIVI = 0.9, GOAL_COMPRESS = 0.05,
                        GOAL_RARE = 0.005, GOAL_PAGED = 0.8, GOAL_PAGED_8 = 0.7,
                        GOAL_COMPACT = 0.005, GOAL_REGULAR = 0.5, GOAL_PAID = 5;

/* The goal is set for value / peer: at least `low`, at most `high`; 0: none.
 * peer 0: a number by itself. */
typedef struct line {
  const char *what, *unit;
  double value, peer, low, high;
} line;

static void table_begin(const bench *b) {
  if (b->csv)
    fputs("what,measured,unit,ceiling,ratio,at_least,at_most,verdict\n",
          b->csv);
}

static void table_theme(const char *name, const char *peer) {
  printf("\n%s\n%-44s %10s %-8s %10s %7s  goal\n", name, "", "", "", peer,
         "ratio");
}

static void write_csv(FILE *to, line l, double ratio, const char *met) {
  fprintf(to, "\"%s\",%.6g,%s,", l.what, l.value, l.unit);
  if (l.peer > 0)
    fprintf(to, "%.6g,%.4g,", l.peer, ratio);
  else
    fputs(",,", to);
  if (l.low > 0) fprintf(to, "%.4g", l.low);
  fputc(',', to);
  if (l.high > 0) fprintf(to, "%.4g", l.high);
  fprintf(to, ",%s\n", met);
  fflush(to);
}

static void table_line(const bench *b, line l) {
  double ratio = l.peer > 0 ? l.value / l.peer : l.value;
  bool goal = (l.low > 0 || l.high > 0) && !b->quick;
  bool good =
      (l.low <= 0 || ratio >= l.low) && (l.high <= 0 || ratio <= l.high);
  const char *met = !goal ? "" : good ? "met" : "missed";
  printf("%-44s %10.2f %-8s", l.what, l.value, l.unit);
  if (l.peer > 0) printf(" %10.2f %7.4f ", l.peer, ratio);
  if (l.low > 0) printf(" >= %.4g", l.low);
  if (l.high > 0) printf(" <= %.4g", l.high);
  printf(" %s\n", met);
  fflush(stdout);
  if (b->csv) write_csv(b->csv, l, ratio, met);
}

/* Fused multiply-adds a second: 128 a clock of each multiprocessor, at nine
 * tenths of the highest clock, which is about what a device holds. */
static double bench_fma(const bench *b) {
  return 128.0 * b->sms * 0.9 * b->clock;
}

/* A row for what this machine or its time did not allow, without a number. */
static void table_owed(const bench *b, const char *what, const char *why) {
  printf("%-44s owed: %s\n", what, why);
  fflush(stdout);
  if (!b->csv) return;
  fprintf(b->csv, "\"%s\",,,,,,,owed\n", what);
  fflush(b->csv);
}

#endif
