/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that choose for those below them: roles by a list of layers, the vote
 * of a layer's query heads about tokens, and the message that says which tokens
 * won. Both twins of a method read the roles and the message.
 */
#ifndef KV_REF_PARTS_FILTER_H
#define KV_REF_PARTS_FILTER_H

#include "ref/parts/layers.h"

/* What a layer does. One that chooses attends everything, as one that is whole
 * does; one that follows attends what the nearest above it has chosen. */
typedef enum kv_role { KV_WHOLE, KV_CHOOSES, KV_FOLLOWS } kv_role;

/* The role of `layer` in a model of n_layers by Sparse-vLLM's rule: the layers
 * of the list `full` and those above its first attend everything, and the last
 * of each run of the list chooses for the layers below it, if there are any, up
 * to the next. */
KV_FN kv_role kv_full_role(const kv_layer_list *full, int n_layers, int layer) {
  int i = kv_layer_above(full, layer);
  bool next = i >= 0 && i + 1 < full->n && full->layer[i + 1] == layer + 1;
  if (i < 0) return KV_WHOLE;
  if (layer > full->layer[i]) return KV_FOLLOWS;
  return next || layer + 1 == n_layers ? KV_WHOLE : KV_CHOOSES;
}

/* How a query head values a candidate. */
typedef enum kv_vote {
  KV_VOTE_PROB,  /* the softmax of the logits over the candidates */
  KV_VOTE_LOGIT, /* the logit, without bias */
  KV_VOTE_DOT    /* q . k, not scaled, no softcap */
} kv_vote;

/* The message that a layer publishes: needs.message is
 * KV_CHOSEN_BYTES(n_tokens).
 */
typedef struct kv_chosen {
  int32_t step, tokens; /* tokens seen then; how many of them are named */
  uint64_t attended[];  /* bit t % 64 of word t / 64: is token t? */
} kv_chosen;

#define KV_CHOSEN_BYTES(n)                                                     \
  (sizeof(kv_chosen) + ((size_t)(n) / 64 + 1) * sizeof(uint64_t))

/* Does the message name the token, of those seen then? */
KV_FN bool kv_is_chosen(const kv_chosen *c, uint32_t token) {
  return c->attended[token / 64] >> token % 64 & 1;
}

#ifdef __cplusplus
extern "C" {
#endif

/* best[i] = the largest value, over the lane's query heads, whose queries are
 * q[queries][d], of entry first + i, i < n. Of a lane that is not re-indexed.
 * Takes KV_VOTE_WORK(queries, n, d) bytes of workspace, which are free again.
 */
void kv_vote_best(const kv_at *at, const kv_lane *lane, const float *q,
                  kv_vote vote, int first, int n, float *best);
#define KV_VOTE_WORK(queries, n, d)                                            \
  ((size_t)(queries) * ((size_t)(n) + 16) * sizeof(float) + KV_KEY_LOGITS(d))

/* In the hook observe, for rows of a chunk of a prompt: the mean over its
 * queries of what each query head makes of n entries from `first` on, and the
 * largest of those means of all heads. kv_chunk_vote adds rows; with those that
 * end the chunk it writes best[n]. `sum`, 8-byte aligned, is room for it from
 * the first row of the chunk on: KV_CHUNK_SUM bytes, which are not read before.
 * Of KV_VOTE_PROB the sums of RN(probability * 2^40), which rank as their mean
 * does; else what the mean query makes of an entry: its numbers are added in
 * order of the rows, by add, and divided by their count. Workspace as
 * kv_vote_best, and a row of queries. */
void kv_chunk_vote(const kv_at *at, const kv_lane *lane, const kv_rows *rows,
                   kv_vote vote, int first, int n, void *sum, float *best);
#define KV_CHUNK_SUM(queries, n, d)                                            \
  ((size_t)(queries) *                                                         \
   ((size_t)(n) * sizeof(int64_t) + (size_t)(d) * sizeof(float)))

/* In the hook publish: fills in the zeroed message that names the k tokens of
 * largest score[i] among tokens first + i, i < n, and all others below
 * at->step. n bytes of workspace. */
void kv_choose_tokens(const kv_at *at, const float *score, int first, int n,
                      int k, kv_chosen *out);

/* In the hook view, of a layer of this role: appends the entries that the
 * message names, of a layer that follows one; else, and where there is no
 * message, all. lane->n bytes of workspace. */
void kv_view_chosen(const kv_at *at, const kv_lane *lane, kv_role role,
                    kv_view *out);

#ifdef __cplusplus
}
#endif

#endif
