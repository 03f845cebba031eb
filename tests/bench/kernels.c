/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the row kernels are, on one thread, against ceilings measured in
 * the same run: the FMA peak of the set's registers and the bandwidth of
 * reading memory. What is timed is first compared, bit for bit, with the
 * portable set. Times are the best of several; data are several times the
 * second-level cache. A busy machine gives no verdict.
 *
 * usage: kernels [--csv] [SET]       goals are printed, not enforced
 */
#include "ref/ground/arith.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/rowbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kv_kernels *kernels, *portable;
static int csv;

void *bench_take(size_t count, size_t size) {
  void *p = kv_zalloc(count, size);
  if (!p) {
    fputs("kernels: not enough memory: free about 1 GiB\n", stderr);
    exit(KV_RESOURCE);
  }
  return p;
}

void bench_report(const char *what, double value, const char *unit,
                  double ceiling, double goal) {
  double percent = ceiling > 0 ? 100 * value / ceiling : 0;
  if (csv) {
    printf("%s,\"%s\",%.4g,%s,%.4g,%.4g\n", kernels->name, what, value, unit,
           percent, goal);
    return;
  }
  printf("%-44s %9.2f %-8s", what, value, unit);
  if (ceiling > 0) printf(" %5.1f %%", percent);
  if (goal > 0)
    printf("  (goal %.0f %%%s)", goal, percent < goal ? ", missed" : "");
  putchar('\n');
}

/* --- data ---------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;
static float draw(void) { /* -1 to 1, full mantissa */
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (float)((int64_t)seed >> 8) * 0x1p-55f;
}

void bench_fill(kv_dtype type, size_t n, void *out) {
  float *f = out;
  uint16_t *h = out;
  for (size_t i = 0; i < n; i++) {
    if (type == KV_F32) f[i] = draw();
    if (type == KV_F16) h[i] = kv_to_f16(draw());
    if (type == KV_BF16) h[i] = kv_to_bf16(draw());
  }
}

const void **bench_rows(const void *base, size_t n, size_t bytes) {
  const void **row = bench_take(n, sizeof *row);
  for (size_t i = 0; i < n; i++) row[i] = (const char *)base + i * bytes;
  return row;
}

int main(int argc, char **argv) {
  kv_err e;
  char note[128];
  kernels = kv_kernels_best();
  kv_float_ground();
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--csv") == 0) {
      csv = 1;
    } else if (kv_kernels_named(argv[i], &kernels, note, &e) != KV_OK) {
      fprintf(stderr, "kernels: %s\n", e.text);
      return KV_USAGE;
    } else if (note[0]) {
      fprintf(stderr, "kernels: %s\n", note);
    }
  }
  kv_kernels_named("portable", &portable, NULL, NULL);
  if (csv) puts("set,what,value,unit,percent,goal");
  if (!csv) printf("kernel set %s, one thread\n", kernels->name);
  /* The clock wanders on a shared machine: the best of many looks. */
  double peak = 0;
  for (int i = 0; i < 8; i++) {
    double now = fma_peak(kernels->name);
    if (now > peak) peak = now;
  }
  if (peak > 0) bench_report("FMA peak", peak, "GFLOP/s", 0, 0);
  int same = bench_prompts(peak) && bench_weighs(peak) && bench_decodes() &&
             bench_codes() && bench_similar(peak);
  if (!same) fputs("kernels: the set differs from portable\n", stderr);
  return same ? 0 : KV_INTERNAL;
}
