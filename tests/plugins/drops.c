/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin whose knob is a real number that takes fewer bytes the greater it
 * is: the newest (1 - drop) of the tokens stay (tests/check_knob.sh).
 */
#include "ref/parts/parts.h"

typedef struct params {
  float drop;
} params;

static const kv_param table[] = {
    KV_REAL_PARAM("drop", params, drop, "0.5", 0, 0.9,
                  "share of the tokens dropped", .knob = KV_KNOB_LESS,
                  .grid = 0.05),
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  (void)shape;
  needs->every = 1;
  needs->lengths = true;
  if (o->drop >= 0) return KV_OK;
  return kv_fail(e, KV_REFUSED, "drops: drop is not set");
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int want = (int)((1 - o->drop) * (float)at->step);
  kv_keep_ends(lane, 0, want < 1 ? 1 : want);
}

const kv_method kv_plugin = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "drops",
    .title = "the newest share of the tokens",
    .paper = "none",
    .params = table,
    .params_size = sizeof(params),
    .open = open,
    .compress_lane = compress_lane,
};
