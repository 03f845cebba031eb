/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamingLLM: keeps the first tokens (attention sinks) and the last tokens.
 *
 *   variant=drop, after the prompt and after every step, n > sink + recent:
 *     keep the first `sink` entries and the last `recent`
 *   variant=prefill: once after the prompt; then lanes grow
 *   positions=cache: the i-th entry is attended at position p0 + i, p0 the
 *     trace's first, and the query at the last of these, so distances are
 *     those within the cache (METHODS.md, Re-indexed lanes)
 *   positions=original: rotations stay as recorded
 *
 * Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks.
 * Paper and authors' code agree, and the default follows them. Both drop after
 * the step, so a step attends sink + recent + 1 tokens. The authors' code keeps
 * keys before RoPE and rotates them to their cache positions at every step.
 * Here a recorded key is turned back from its own position and forward to its
 * cache position. Without the trace's rotation frequencies positions=cache is
 * refused.
 *
 * Ports that keep the original positions (KVCache-Factory, DuoAttention's
 * streaming heads) are positions=original. kvpress cuts the prompt once and
 * then grows: variant=prefill:positions=original. Wrapped in its key rotation,
 * which turns once by the difference of angles, it is variant=prefill.
 *
 * Family: drop. Acts: every step. Needs: keys rotated anew. Bound: min(t, B).
 * Bytes: B R. Gather: -. Reduce: position, both ends. Sample: top-k. Cost: O(n)
 * a lane and step.
 */
#include "ref/methods/streamingllm.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

/* An unset parameter is the budget minus the other. If both are unset, sink is
 * 4, or the budget minus 1 if that is smaller. */
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
                 "streamingllm: sink=%d and recent=%d do not add up to the "
                 "budget of %d; give only one of them",
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
  needs->slides = !needs->reindex;
  return resolve(o, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_keep_ends(lane, o->sink, o->recent);
}

const kv_method kv_method_streamingllm = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "streamingllm",
    .title = "attention sinks and the most recent tokens",
    .paper = "Xiao et al. 2023, Efficient Streaming Language Models with "
             "Attention Sinks, arXiv:2309.17453",
    .compress_lane = compress_lane,
};
