/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV: the prompt's last queries vote for what stays of the prompt.
 *
 *   after the prompt, where n > budget, with w = window:
 *     vote[j]  = group rule over query heads of
 *                sum over the last w queries of p[query][j]
 *     score[j] = pool(vote)[j] over neighbours, sinks <= j < n - recent
 *     keep the first `sinks`, the best budget - sinks - recent entries by
 *     score, and the last `recent`; sinks = 0, recent = w
 *   grow=yes: afterwards every token is appended, nothing is dropped
 *   grow=no:  the same again after every `every` decode steps; else where the
 *             lane has reached a length: twice: 2 budget; twice_past: 2 past,
 *             past = budget - sinks - recent; past_more: budget + past. The
 *             voters are the last `voters` queries before it, w of them
 *
 * Li et al. 2024, SnapKV: LLM Knows What You are Looking for Before
 * Generation. The budget includes the window; softmax runs over all n columns,
 * the window's included. Paper and authors' code agree on that; the code
 * selects per query head and so stores a cache as many times larger as a KV
 * head has query heads (group=query_head), the default here is one selection a
 * KV head by the mean. The code leaves equal scores in no order and max
 * pooling makes them routine: here the lower entry stays. Kept entries stay in
 * time order (the code: by score; attention cannot tell). Settings differ
 * between class (64, kernel 5, avg) and configurations (32, 7, max): the
 * defaults follow the latter, which the paper's tables used. grow=no is not in
 * the paper; every >= window keeps the votes a sum, so that no ring of rows is
 * needed; the sums that live between steps are charged.
 *
 * Sparse-vLLM (commits d526f0a and 18d3104) keeps 64 sinks and the last 512
 * tokens beside the best 4096 of the rest, and compresses again where a lane
 * has twice those 4096 - twice what is kept by score, not twice the budget - by
 * the current query: sinks=64:recent=512:grow=twice_past:voters=1 with
 * budget=4672, window=32, group=max, pooling=none; at every step where sinks
 * and recent are more than the rest. Not offered: its one set for all heads of
 * a layer, its logits in place of probabilities (d526f0a; 18d3104 in decoding
 * alone), softmax over the candidates alone (18d3104, prompt), and its waiting
 * until a whole batch is long.
 * Cost: window rows of observation once; O(n) a compression.
 */
#include "ref/methods/snapkv.h"

static const kv_param table[] = {
    KV_BUDGET_PARAM(
        params,
        "tokens left after a compression, window included; must be given"),
    KV_WINDOW_PARAMS(params, w),
    KV_GROW_PARAMS(params, g, false),
    {.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  needs->lengths = true;
  return kv_open_grow(shape, "snapkv", o->budget, true, &o->w, &o->g, needs, e);
}

static int past(const params *o) {
  return o->budget - kv_grow_ends(&o->g, &o->w);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_grow_observe(at, lane, rows, &o->w, &o->g, past(o));
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_grow_compress(at, lane, &o->w, &o->g, past(o));
}

const kv_method kv_method_snapkv = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "snapkv",
    .title = "what the prompt's last queries look at",
    .paper = "Li et al. 2024, SnapKV: LLM Knows What You are Looking for "
             "Before Generation, arXiv:2404.14469",
    .params = table,
    .params_size = sizeof(params),
    .open = open,
    .observe = observe,
    .compress_lane = compress_lane,
};
