/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that choose for those below them: ref/parts/filter.h.
 */
#include "ref/parts/filter.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"

void kv_vote_best(const kv_at *at, const kv_lane *lane, const float *q,
                  kv_vote vote, int first, int n, float *best) {
  size_t used = at->work->used;
  float *s = KV_TAKE(at->work, float, lane->queries *n);
  float scale = vote == KV_VOTE_DOT ? 1 : at->shape->scale;
  kv_key_logits(at, lane, lane->queries, q, first, n, scale, s, (size_t)n);
  if (vote != KV_VOTE_DOT)
    at->kernels->softcap(at->shape->softcap, lane->queries, n, s, (size_t)n);
  for (int h = 0; h < lane->queries; h++) {
    float *x = s + (size_t)h * (size_t)n;
    if (vote == KV_VOTE_PROB) kv_probabilities(at, n, x);
    for (int i = 0; i < n; i++) best[i] = h ? kv_max(best[i], x[i]) : x[i];
  }
  at->work->used = used;
}

void kv_choose_tokens(const kv_at *at, const float *score, int first, int n,
                      int k, kv_chosen *out) {
  bool *keep = KV_TAKE(at->work, bool, n);
  if (n) kv_top(score, n, k, keep);
  out->step = at->step;
  out->tokens = at->step - n + (k < n ? k : n);
  for (int t = 0; t < at->step; t++)
    if (t < first || t >= first + n || keep[t - first])
      out->attended[t / 64] |= (uint64_t)1 << t % 64;
}

void kv_view_chosen(const kv_at *at, const kv_lane *lane, kv_role role,
                    kv_view *out) {
  bool *in = KV_TAKE(at->work, bool, lane->n);
  if (role != KV_FOLLOWS || !at->above) {
    kv_view_add(out, 0, lane->n);
    return;
  }
  const kv_chosen *m = at->above->data;
  for (int i = 0; i < lane->n; i++) in[i] = kv_is_chosen(m, lane->id[i]);
  kv_view_mask(out, lane->n, in);
}
