/* SPDX-License-Identifier: Apache-2.0
 *
 * HeadKV: SnapKV's choice with a budget of its own for every head, by how much
 * the head was seen to retrieve and to reason.
 *
 *   score[l][h] >= 0 for each query head of each layer, from a file
 *   base = budget - w;  each = floor(base / beta)
 *   cap[l][h] = round(score[l][h] / (sum of all) * each * L * H
 *                     + (base - each))
 *   fewer tokens seen than the budget: all stays
 *   after the prompt: keep the best cap[l][h] entries by SnapKV's score and the
 *   last w; a lane of several query heads gets the mean of their caps, rounded
 *   afterwards lanes grow
 * grow, every, sinks, recent and voters are those of ref/parts/grow.h.
 *
 * To the bit: each = floor of base / beta in binary64, beta the binary32 that
 * was parsed. The sum of the scores in binary64, in their order, rounded once;
 * then binary32, each operation rounded: score / sum, times each * L * H,
 * plus base - each, to the nearest integer, ties to even; the mean of a lane's
 * caps likewise.
 *
 * Fu et al. 2024, Not All Heads Matter: A Head-Level KV Cache Compression
 * Method with Integrated Retrieval and Reasoning (HeadKV). The rule is that of
 * the authors' code (commit 0862a09), where the sum is in binary64 throughout
 * and floor is Python's, which may be one lower where base / beta is whole.
 * There every query head has a cache (group=query_head); one cache a KV head,
 * at the mean of its heads' caps, is KVCache-Factory's, which also adds the
 * window on top: its C is budget - w. Authors raise scores to a power first
 * (`temp`, always 1 in their scripts): a table may hold them raised. beta is
 * searched from 1.005 to 10 in their scripts; 1.5 is their command line's
 * default. The paper's 1 / beta is the share that heads compete for.
 * A file is `scores` [layers, query heads]; without one all heads are alike,
 * and what stays is SnapKV's.
 * Cost: as SnapKV.
 */
#include "ref/methods/headkv.h"

static const kv_tensor_ask tensors[] = {{.name = "scores",
                                         .type = KV_T_F32,
                                         .rank = 2,
                                         .dim = {KV_DIM_LAYERS, KV_DIM_HEADS}},
                                        {.name = NULL}};
static const kv_asset_kind kind = {NULL, tensors};

static const kv_param table[] = {
    KV_BUDGET_PARAM(
        params, "a head's share on average, window included; must be given"),
    KV_WINDOW_PARAMS(params, w),
    KV_REAL_PARAM("beta", params, beta, "1.5", 1, 1 << 20,
                  "heads compete for 1 / beta of the budget; 1.5 as in the "
                  "authors' command line"),
    KV_FILE_PARAM("table", params, file, KV_FILE_OPTIONAL, &kind,
                  "heads' importance: safetensors, scores [layers, query "
                  "heads]; default: all alike, which is SnapKV"),
    KV_GROW_PARAMS(params, g, false),
    {.name = NULL}};

static kv_rc sum_scores(const kv_shape *s, params *o, kv_err *e) {
  const kv_tensor *t = o->file.asset->tensor;
  const float *score = t->data;
  double sum = 0;
  for (int i = 0; i < t->count; i++) {
    sum += (double)score[i];
    if (!(score[i] >= 0))
      return kv_fail(e, KV_REFUSED,
                     "%s: the score of query head %d of layer %d is %g, below "
                     "0",
                     o->file.asset->path, i % s->n_heads, i / s->n_heads,
                     (double)score[i]);
  }
  o->sum = (float)sum;
  if (o->sum > 0 && kv_finite(o->sum)) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: the scores add up to %g; shares of that are no numbers",
                 o->file.asset->path, sum);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc =
      kv_open_grow(shape, "headkv", o->budget, false, &o->w, &o->g, needs, e);
  if (rc) return rc;
  int base = o->budget - kv_grow_ends(&o->g, &o->w);
  int each = (int)((double)base / (double)o->beta);
  o->named = o->file.asset != NULL;
  o->least = base - each;
  o->pool = (float)((int64_t)each * shape->n_layers * shape->n_heads);
  needs->lengths = true;
  return o->named ? sum_scores(shape, o, e) : KV_OK;
}

static int past(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  const float *scores = o->named ? at->asset[0].data : NULL;
  return kv_headkv_past(o, at->shape, scores, at->layer, lane->lane, at->step);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_grow_observe(at, lane, rows, &o->w, &o->g, past(at, lane));
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_grow_compress(at, lane, &o->w, &o->g, past(at, lane));
}

const kv_method kv_method_headkv = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "headkv",
    .title = "SnapKV with a budget of its own for every head",
    .paper = "Fu et al. 2024, Not All Heads Matter: A Head-Level KV Cache "
             "Compression Method with Integrated Retrieval and Reasoning, "
             "arXiv:2410.19258",
    .params = table,
    .params_size = sizeof(params),
    .spreads = true,
    .open = open,
    .observe = observe,
    .compress_lane = compress_lane,
};
