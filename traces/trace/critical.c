/* SPDX-License-Identifier: Apache-2.0
 *
 * The fewest tokens of a row: traces/trace/critical.h. Whole steps are counted
 * first; only the step in which 95 % is reached is sorted.
 */
#include "traces/trace/critical.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/err.h"

enum { STEPS = KV_CRITICAL_STEPS };

bool kv_critical_init(kv_critical *x, int tokens) {
  x->part = kv_zalloc((size_t)tokens, sizeof *x->part);
  return x->part;
}

void kv_critical_release(kv_critical *x) {
  free(x->part);
  x->part = NULL;
}

static int descending(const void *a, const void *b) {
  float x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x < y) - (x > y);
}

static int step_of(float p) {
  int step = (int)(kv_bits(p) >> 20);
  return step < STEPS ? step : STEPS - 1;
}

/* How many of the largest reach `want`: all of the upper steps that fit, then
 * the largest of the next one. */
static int reach(kv_critical *x, int n, const float *p, int64_t want) {
  int step = STEPS - 1, taken = 0, of = 0;
  while (step > 0 && x->mass[step] < want) {
    want -= x->mass[step];
    taken += x->count[step--];
  }
  for (int j = 0; j < n; j++)
    if (step_of(p[j]) == step) x->part[of++] = p[j];
  qsort(x->part, (size_t)of, sizeof *x->part, descending);
  for (int j = 0; j < of && want > 0; j++) {
    want -= kv_fix(x->part[j]);
    taken++;
  }
  return taken;
}

int kv_critical_tokens(kv_critical *x, int n, const float *p) {
  int64_t all = 0;
  memset(x->count, 0, sizeof x->count);
  memset(x->mass, 0, sizeof x->mass);
  for (int j = 0; j < n; j++) {
    int64_t mass = kv_fix(p[j]);
    int step = step_of(p[j]);
    x->count[step]++;
    x->mass[step] += mass;
    all += mass;
  }
  return reach(x, n, p, all - all / 20);
}
