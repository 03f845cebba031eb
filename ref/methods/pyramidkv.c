/* SPDX-License-Identifier: Apache-2.0
 *
 * PyramidKV: SnapKV's choice with a budget that shrinks from layer to layer.
 *
 *   base = C - w;  min = base div beta;  max = 2 base - min
 *   max >= n - w:  max = n - w, min = 2 base - max
 *   b[l] = max - l * ((max - min) div (L - 1)), l the model's layer
 *   n <= C: all stays; n < 2 base: base instead of b[l]
 *   after the prompt: keep the best b[l] entries by SnapKV's score and the
 *   last w
 *   exact_total=yes: b[l] = max - (l * (max - min)) div (L - 1) in the lower
 *     half, b[L-1-l] = 2 base - b[l] in the upper, base in an odd middle: the
 *     layers' sum is L * base exactly
 *
 * Cai et al. 2024, PyramidKV. The paper gives shares of the total; the schedule
 * is that of the authors' framework (KVCache-Factory), integer divisions
 * included, whose floor makes the layers' total exceed L * C: by
 * (L / 2) * ((max - min) mod (L - 1)) tokens. The default follows it, beta 20
 * as well; the ledger shows the true total. kvpress computes in reals and
 * falls back to equal budgets where the schedule does not fit; not offered.
 * Everything else: see snapkv. Afterwards lanes grow.
 */
#include "ref/methods/pyramidkv.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {
    {.name = "budget",
     .kind = KV_INT,
     .knob = KV_KNOB_ENTRIES,
     .offset = offsetof(params, budget),
     .min = 1,
     .max = 1 << 29,
     .unit = "tokens",
     .help = "C of the schedule: the layers' nominal mean, window included; "
             "must be given"},
    KV_WINDOW_PARAM(params, w),
    KV_KERNEL_PARAM(params, w),
    KV_POOLING_PARAM(params, w),
    KV_GROUP_PARAM(params, w),
    {.name = "beta",
     .kind = KV_INT,
     .offset = offsetof(params, beta),
     .fallback = "20",
     .min = 1,
     .max = 1 << 20,
     .help = "the top layer gets base div beta; 20 as in the authors' code"},
    {.name = "exact_total",
     .kind = KV_CHOICE,
     .offset = offsetof(params, exact_total),
     .fallback = "no",
     .choices = "no|yes",
     .help = "make the layers' budgets sum to L times the mean; no as in the "
             "authors' code"},
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  needs->lengths = true;
  return kv_open_window(shape, "pyramidkv", o->budget, &o->w, needs, e);
}

static int past_of_layer(const params *o, const kv_at *at, int n, bool *all) {
  int layers = at->shape->n_layers, w = o->w.window;
  if (o->exact_total == NO)
    return kv_pyramid(o->budget, w, layers, at->layer, n, o->beta, all);
  int max = kv_pyramid(o->budget, w, layers, 0, n, o->beta, all);
  return kv_pyramid_exact(max, o->budget - w, layers, at->layer);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_window_observe(at, lane, rows, &o->w);
}

static void settle_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  bool all;
  int past = past_of_layer(o, at, lane->n, &all);
  if (!all) kv_window_keep(at, lane, &o->w, past);
  memset(kv_own(at, lane), 0,
         kv_window_state(at->shape, (kv_group_rule)o->w.group));
}

const kv_method kv_method_pyramidkv = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "pyramidkv",
    .title = "SnapKV with a budget that shrinks from layer to layer",
    .paper = "Cai et al. 2024, PyramidKV: Dynamic KV Cache Compression based "
             "on Pyramidal Information Funneling, arXiv:2406.02069",
    .params = table,
    .params_size = sizeof(params),
    .spreads = true,
    .open = open,
    .observe = observe,
    .settle_lane = settle_lane,
};
