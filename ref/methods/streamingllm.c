/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamingLLM: the first tokens, where attention drains to, and the last.
 *
 *   variant=drop, after the prompt and after every step, while
 *   n > sink + recent:
 *     keep entries [0, sink) and the last `recent`
 *   variant=prefill: once after the prompt, then grow
 *   positions=cache: the i-th entry is attended at position p0 + i and the
 *     query at the last of them, so distances are those within the cache
 *   positions=original: rotations stay as recorded
 *
 * Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks.
 * Paper and authors' code agree; their code keeps keys before RoPE and rotates
 * them to their places at every step. Here a recorded key is turned back by
 * what the model turned it by, and to its place from there: one turn by the
 * difference would be no such key, for angles are rounded. Both drop after the
 * step, so a step attends sink + recent + 1. The default follows them. Ports
 * that keep the original positions (KVCache-Factory, DuoAttention's streaming
 * heads) are positions=original. kvpress cuts the prompt once and then grows:
 * variant=prefill:positions=original, or variant=prefill where its key
 * rotation, one turn by the difference, is wrapped around. Without recorded
 * rotation frequencies positions=cache is refused. Cost: O(n) a lane and step.
 */
#include "ref/methods/streamingllm.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {
    KV_BUDGET_PARAM(params, "sink + recent; must be given"),
    KV_INT_PARAM("sink", params, sink, NULL, 0, 1 << 30, "tokens",
                 "first tokens, always kept; default min(4, budget - 1), 4 as "
                 "in the paper, or what recent leaves"),
    KV_INT_PARAM("recent", params, recent, NULL, 0, 1 << 30, "tokens",
                 "last tokens; default budget - sink"),
    KV_CHOICE_PARAM("positions", params, positions, "cache", "cache|original",
                    "where entries are attended; cache as in the paper"),
    KV_CHOICE_PARAM("variant", params, variant, "drop", "drop|prefill",
                    "drop: after every step, as in the paper; prefill: once "
                    "after the prompt, as in kvpress",
                    .later = true),
    {.name = NULL}};

/* What is not given is what the other leaves of the budget. */
static kv_rc resolve(params *o, kv_err *e) {
  if (o->sink == KV_UNSET && o->recent == KV_UNSET)
    o->sink = o->budget > 4 ? 4 : o->budget - 1;
  if (o->sink != KV_UNSET) {
    kv_rc rc = kv_open_part("streamingllm", "sink", o->sink, o->budget, e);
    if (rc) return rc;
    if (o->recent == KV_UNSET) o->recent = o->budget - o->sink;
  }
  kv_rc rc = kv_open_part("streamingllm", "recent", o->recent, o->budget, e);
  if (rc) return rc;
  if (o->sink == KV_UNSET) o->sink = o->budget - o->recent;
  if (o->sink == o->budget - o->recent) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "streamingllm: sink=%d and recent=%d are not the budget of "
                 "%d; give one of them and leave the other to the budget",
                 o->sink, o->recent, o->budget);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  (void)shape;
  kv_rc rc = kv_open_budget("streamingllm", o->budget, e);
  if (rc) return rc;
  needs->every = o->variant == DROP;
  needs->lengths = true;
  needs->reindex = o->positions == CACHE;
  return resolve(o, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_keep_ends(lane, o->sink, o->recent);
}

const kv_method kv_method_streamingllm = {
    .abi = KV_METHOD_ABI,
    .revision = 2,
    .name = "streamingllm",
    .title = "attention sinks and the most recent tokens",
    .paper = "Xiao et al. 2023, Efficient Streaming Language Models with "
             "Attention Sinks, arXiv:2309.17453",
    .params = table,
    .params_size = sizeof(params),
    .open = open,
    .compress_lane = compress_lane,
};
