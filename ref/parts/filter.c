/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that choose tokens for those below them: ref/parts/filter.h.
 */
#include "ref/parts/filter.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

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

/* sum[h][i] += RN(probability * 2^40) of the query of head h, row r. */
static void add_shares(const kv_at *at, const kv_lane *lane, const float *q,
                       int first, int n, int64_t *sum) {
  size_t used = at->work->used;
  float *s = KV_TAKE(at->work, float, lane->queries *n);
  kv_key_logits(at, lane, lane->queries, q, first, n, at->shape->scale, s,
                (size_t)n);
  at->kernels->softcap(at->shape->softcap, lane->queries, n, s, (size_t)n);
  for (int h = 0; h < lane->queries; h++) {
    float *x = s + (size_t)h * (size_t)n;
    kv_probabilities(at, n, x);
    at->kernels->fix_add(x, n, sum + (size_t)h * (size_t)n);
  }
  at->work->used = used;
}

static void largest_share(int heads, int n, const int64_t *sum, float *best) {
  for (int i = 0; i < n; i++) {
    int64_t most = sum[i];
    for (int h = 1; h < heads; h++) {
      int64_t x = sum[(size_t)h * (size_t)n + (size_t)i];
      most = x > most ? x : most;
    }
    best[i] = kv_unfix(most);
  }
}

/* The best by the mean query: q[queries][d] holds the sum of all rows. */
static void vote_mean(const kv_at *at, const kv_lane *lane, kv_vote vote,
                      int first, int n, const float *q, int rows, float *best) {
  size_t used = at->work->used;
  int each = lane->queries * at->shape->d;
  float *mean = KV_TAKE(at->work, float, each);
  for (int j = 0; j < each; j++) mean[j] = kv_div(q[j], (float)rows);
  kv_vote_best(at, lane, mean, vote, first, n, best);
  at->work->used = used;
}

void kv_chunk_vote(const kv_at *at, const kv_lane *lane, const kv_rows *rows,
                   kv_vote vote, int first, int n, void *sum, float *best) {
  int begin = kv_chunk_first(at->shape, at->step);
  int each = lane->queries * at->shape->d;
  int64_t *share = sum;
  float *q = sum;
  if (rows->first == begin)
    memset(sum, 0,
           vote == KV_VOTE_PROB
               ? (size_t)lane->queries * (size_t)n * sizeof *share
               : (size_t)each * sizeof *q);
  for (int r = 0; r < rows->rows && n > 0; r++) {
    const float *row = rows->q + kv_rows_at(rows, r, 0) * (size_t)at->shape->d;
    if (vote == KV_VOTE_PROB) add_shares(at, lane, row, first, n, share);
    for (int j = 0; vote != KV_VOTE_PROB && j < each; j++)
      q[j] = kv_add(q[j], row[j]);
  }
  if (rows->first + rows->rows < at->step || n == 0) return;
  if (vote == KV_VOTE_PROB)
    largest_share(lane->queries, n, share, best);
  else
    vote_mean(at, lane, vote, first, n, q, at->step - begin, best);
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
