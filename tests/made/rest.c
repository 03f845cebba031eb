/* SPDX-License-Identifier: Apache-2.0
 *
 * The method of tests/made/rest.h.
 */
#include "tests/made/rest.h"

#include "ref/ground/arith.h"
#include "ref/lane/lane.h"
#include "ref/parts/parts.h"

#include <string.h>

static kv_rc rest_open(const kv_shape *shape, void *params, kv_needs *needs,
                       kv_err *e) {
  (void)params, (void)e;
  needs->every = 1;
  needs->lane_state = sizeof(rest_state) + (size_t)shape->d_v * sizeof(float);
  needs->work = (size_t)shape->d_v * sizeof(float) + 64;
  return KV_OK;
}

static bool rest_chunk(const kv_at *at, const kv_lane *l, const kv_query *q,
                       float *m, float *sum, float *a) {
  const rest_state *s = kv_own(at, l);
  (void)q;
  if (s->n == 0) return false;
  *m = 0;
  *sum = s->n;
  memcpy(a, s->sum, (size_t)at->shape->d_v * sizeof *a);
  return true;
}

static void rest_compress(const kv_at *at, kv_lane *l) {
  rest_state *s = kv_own(at, l);
  int d_v = at->shape->d_v, goes = l->n - REST_STAYS;
  float *row = KV_TAKE(at->work, float, d_v);
  if (goes <= 0) return;
  for (int i = 0; i < goes; i++) {
    kv_lane_value(l, i, row);
    for (int x = 0; x < d_v; x++) s->sum[x] = kv_add(s->sum[x], row[x]);
  }
  s->n = s->n + (float)goes;
  kv_keep_ends(l, 0, REST_STAYS);
}

const kv_method rest_method = {.abi = KV_METHOD_ABI,
                               .name = "rest",
                               .open = rest_open,
                               .chunk = rest_chunk,
                               .compress_lane = rest_compress};
