/* SPDX-License-Identifier: Apache-2.0
 *
 * KeyDiff: tokens whose keys are unlike the average key. Keys that resemble
 * each other are redundant, and queries tend to look at those that stand out.
 *
 *   anchor   = mean over the lane's entries of k / |k|
 *   score(j) = -cos(k_j, anchor)
 *   the prompt enters in blocks of `block` tokens (0: at once), or in chunks
 *     that a specification's prefill names instead; after each,
 *   n > budget: the `budget` entries with the largest score stay (equal: the
 *   older), the anchor being that of what is stored and the block
 *
 * To the bit: ref/parts/score_keys.c. sinks, last, form, every and reindex are
 * those of all scorers (METHODS.md, Scorers).
 *
 * Park et al. 2025, KeyDiff: Key Similarity-Based KV Cache Eviction for
 * Long-Context LLM Inference. It looks at no query and protects neither the
 * first tokens nor the last; keys are taken as stored, after RoPE. Where code
 * and paper differ, the default is the first:
 * - block: the paper processes a prompt in blocks, 128 here; kvpress's press
 *   scores the whole prompt once (block=0). Its block press begins with the
 *   first `budget` tokens and adds blocks to those: the same decisions where
 *   the budget is a multiple of the block.
 * - form: kvpress compresses after the prompt, its decoding press every 512
 *   steps of decoding.
 *
 * Family: drop. Acts: every 128 tokens of the prompt. Needs: keys. Bound:
 * min(P, B) + t - P; other forms: METHODS.md, Scorers. Bytes: B R. Gather: the
 * token. Reduce: minus the cosine of k with the mean of all keys. Sample:
 * top-k. Cost: O(n d) a lane and compression.
 */
#include "ref/methods/keydiff.h"

static const kv_param table[] = {
    KV_BUDGET_PARAM(params, "tokens left after a compression; must be given"),
    KV_INT_PARAM(
        "block", params, block, NULL, 0, 1 << 30, "tokens",
        "prompt tokens that enter before a compression; 0: all at once, as "
        "kvpress's press; default 128 as in the paper, 0 with form=decode"),
    KV_SINKS_PARAM(params, s),
    KV_LAST_PARAM(params, s),
    KV_FORM_PARAMS(params, s),
    {.name = NULL}};

enum { BLOCK = 128 };

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  bool decodes = o->s.form == KV_FORM_DECODE;
  o->s.score = KV_SCORE_keydiff;
  if (o->block == KV_UNSET) o->block = decodes ? 0 : BLOCK;
  needs->block = shape->chunk ? 0 : o->block;
  needs->lengths = o->s.w.window > 0;
  if (decodes && o->block)
    return kv_fail(e, KV_REFUSED,
                   "keydiff: block=%d means nothing with form=decode, which "
                   "leaves the prompt whole; leave it out or write form=both",
                   o->block);
  return kv_score_open(shape, "keydiff", o->budget, &o->s, needs, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_score_compress(at, lane, o->budget, KV_NO_THRESHOLD, &o->s);
}

const kv_method kv_method_keydiff = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "keydiff",
    .title = "tokens whose keys are unlike the average key",
    .paper = "Park et al. 2025, KeyDiff: Key Similarity-Based KV Cache "
             "Eviction for Long-Context LLM Inference, arXiv:2504.15364",
    .compress_lane = compress_lane,
};
