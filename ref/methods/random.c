/* SPDX-License-Identifier: Apache-2.0
 *
 * Random: a selection without information. A useful method must beat it.
 *
 *   hash(t) = mix(mix(mix(seed + l) + lane) + t), t the token's id, l the layer
 *   mix(x):   x += 0x9e3779b97f4a7c15; x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
 *             x = (x ^ x >> 27) * 0x94d049bb133111eb; x ^ x >> 31
 *   variant=drop, after the prompt and after every step, n > budget:
 *     keep the last `recent` entries and, of those before, the budget - recent
 *     with the largest hash, an unsigned 64-bit number (ties: the older)
 *   variant=prefill: once after the prompt; then lanes grow
 *
 * mix is one step of splitmix64, modulo 2^64. A token's hash never changes, so
 * what variant=drop keeps depends only on t, wherever decoding began. There is
 * no paper. kvpress draws the prompt's tokens once, with another generator, and
 * protects none (variant=prefill:recent=0).
 *
 * Family: baseline. Acts: every step. Needs: nothing. Bound: min(t, B). Bytes:
 * B R. Gather: -. Reduce: a hash of the token; position of the last `recent`.
 * Sample: top-k. Cost: O(n) a lane and step.
 */
#include "ref/methods/random.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  (void)shape;
  needs->every = o->variant == DROP;
  needs->lengths = needs->slides = true;
  kv_rc rc = kv_open_budget("random", o->budget, e);
  if (rc) return rc;
  if (o->recent == KV_UNSET) o->recent = kv_fallback_window(o->budget);
  return kv_open_part("random", "recent", o->recent, o->budget, e);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int past = lane->n - o->recent;
  if (lane->n <= o->budget) return;
  uint64_t *hash = KV_TAKE(at->work, uint64_t, past);
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  uint64_t seed = kv_mix((uint64_t)o->seed + (uint64_t)at->layer);
  seed = kv_mix(seed + (uint64_t)lane->lane);
  for (int i = 0; i < past; i++) hash[i] = kv_mix(seed + lane->id[i]);
  kv_top_hash(hash, past, o->budget - o->recent, keep);
  memset(keep + past, true, (size_t)o->recent);
  kv_keep_mask(lane, keep);
}

const kv_method kv_method_random = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "random",
    .title = "tokens drawn by a hash, and the most recent",
    .paper = "none: a baseline",
    .compress_lane = compress_lane,
};
