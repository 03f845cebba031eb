/* SPDX-License-Identifier: Apache-2.0
 *
 * Sliding window: keeps the last `budget` tokens.
 *
 *   variant=drop, after the prompt and after every step:
 *     keep the last `budget` entries
 *   variant=prefill: once after the prompt; then lanes grow
 *
 * The idea is in Beltagy et al. 2020 (Longformer). This cache is trimmed after
 * the step, so a step attends budget + 1 tokens, its own included. A mask
 * inside the attention (Mistral's t - j < W) attends W, one fewer for the same
 * number. Positions stay as recorded; streamingllm with sink=0 counts them
 * anew.
 *
 * Family: baseline. Acts: every step. Needs: nothing. Bound: min(t, B). Bytes:
 * B R. Gather: -. Reduce: position. Sample: top-k. Cost: O(n) a lane and step.
 */
#include "ref/methods/window.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  (void)shape;
  needs->every = o->variant == DROP;
  needs->lengths = needs->slides = true;
  return kv_open_budget("window", o->budget, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_keep_ends(lane, 0, o->budget);
}

const kv_method kv_method_window = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "window",
    .title = "the most recent tokens",
    .paper = "Beltagy et al. 2020, Longformer: The Long-Document "
             "Transformer, arXiv:2004.05150",
    .compress_lane = compress_lane,
};
