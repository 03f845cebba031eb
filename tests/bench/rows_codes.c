/* SPDX-License-Identifier: Apache-2.0
 *
 * Coded rows: KIVI's groups of 32, decoded to fp32, beside the portable set.
 */
#include "ref/formats/minmax.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/rowbench.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = 32, DECODED = 1 << 16 };

typedef struct coded {
  const kv_format *format;
  kv_minmax is;
  const kv_kernels *k;
  char block[GROUP * D];
  float out[GROUP][D];
} coded;

static void run_codes(void *v) {
  coded *x = v;
  int members = x->format->members(&x->is);
  for (int i = 0; i < DECODED; i++)
    x->format->decode(x->k, &x->is, members, D, x->block, i % members,
                      x->out[i % members]);
}

/* Of numbers decoded, beside the same by the portable set. */
static int bench_code(const kv_format *format) {
  coded x = {format, {2, GROUP, KV_RULE_STORED}, portable, {0}, {{0}}};
  float rows[GROUP][D], want[GROUP][D];
  const float *row[GROUP];
  char what[64];
  for (int m = 0; m < GROUP; m++) row[m] = rows[m];
  bench_fill(KV_F32, sizeof rows / sizeof **rows, rows);
  if (!format->encode(&x.is, format->members(&x.is), D, row, x.block)) return 0;
  double plain = best_of(run_codes, &x);
  memcpy(want, x.out, sizeof want);
  x.k = kernels;
  double time = best_of(run_codes, &x), all = (double)DECODED * D * 1e-9;
  snprintf(what, sizeof what, "codes of 2 bits, %s", format->name);
  bench_report(what, all / time, "Gnum/s", 0, 0);
  bench_report("  by the portable set", all / plain, "Gnum/s", 0, 0);
  return memcmp(want, x.out, sizeof want) == 0;
}

int bench_codes(void) {
  return bench_code(&kv_format_channel) && bench_code(&kv_format_token);
}
