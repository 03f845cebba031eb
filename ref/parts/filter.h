/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that choose tokens for the layers below them: roles from a list of
 * layers, the vote of a layer's query heads on tokens, and the message that
 * names the winners. Both twins of a method read the roles and the message.
 */
#ifndef KV_REF_PARTS_FILTER_H
#define KV_REF_PARTS_FILTER_H

#include "ref/parts/layers.h"

/* What a layer does. A whole layer and a choosing one attend everything; a
 * following one attends what the nearest choosing layer above it chose. */
typedef enum kv_role { KV_WHOLE, KV_CHOOSES, KV_FOLLOWS } kv_role;

/* The role of `layer` in a model of n_layers, by Sparse-vLLM's rule. The layers
 * in `full` and those above its first attend everything. The last of each run
 * of consecutive listed layers chooses for the layers below it, up to the next
 * listed one, if there are any between. */
KV_FN kv_role kv_full_role(const kv_layer_list *full, int n_layers, int layer) {
  int i = kv_layer_above(full, layer);
  bool next = i >= 0 && i + 1 < full->n && full->layer[i + 1] == layer + 1;
  if (i < 0) return KV_WHOLE;
  if (layer > full->layer[i]) return KV_FOLLOWS;
  return next || layer + 1 == n_layers ? KV_WHOLE : KV_CHOOSES;
}

/* The value that a query head gives a candidate. */
typedef enum kv_vote {
  KV_VOTE_PROB,  /* the softmax of the logits over the candidates */
  KV_VOTE_LOGIT, /* the logit, without bias */
  KV_VOTE_DOT    /* q . k, without scale and softcap */
} kv_vote;

/* The message of a layer; needs.message is KV_CHOSEN_BYTES(n_tokens). */
typedef struct kv_chosen {
  int32_t step, tokens; /* tokens seen; how many of them are named */
  uint64_t attended[];  /* bit t % 64 of word t / 64: is token t named? */
} kv_chosen;

#define KV_CHOSEN_BYTES(n)                                                     \
  (sizeof(kv_chosen) + ((size_t)(n) / 64 + 1) * sizeof(uint64_t))

/* Does the message name the token, which had been seen then? */
KV_FN bool kv_is_chosen(const kv_chosen *c, uint32_t token) {
  return c->attended[token / 64] >> token % 64 & 1;
}

#ifdef __cplusplus
extern "C" {
#endif

/* best[i] = the largest value that any of the lane's query heads, with queries
 * q[queries][d], gives entry first + i, i < n. The lane must not be re-indexed.
 * Uses KV_VOTE_WORK(queries, n, d) bytes of workspace and frees them. */
void kv_vote_best(const kv_at *at, const kv_lane *lane, const float *q,
                  kv_vote vote, int first, int n, float *best);
#define KV_VOTE_WORK(queries, n, d)                                            \
  ((size_t)(queries) * ((size_t)(n) + 16) * sizeof(float) + KV_KEY_LOGITS(d))

/* In the hook observe, for rows of a chunk of a prompt. For each query head,
 * averages over the chunk's queries the value of n entries from `first` on;
 * best[n] is the largest average over heads. Each call adds rows; the call with
 * the chunk's last rows writes best.
 *
 * `sum`, 8-byte aligned, KV_CHUNK_SUM bytes, is kept from the chunk's first row
 * on and need not be initialised. With KV_VOTE_PROB it holds sums of
 * RN(probability * 2^40), which rank as their means do. Otherwise the mean
 * query is valued: queries are added in row order and divided by their count.
 * Workspace as for kv_vote_best, plus one row of queries. */
void kv_chunk_vote(const kv_at *at, const kv_lane *lane, const kv_rows *rows,
                   kv_vote vote, int first, int n, void *sum, float *best);
#define KV_CHUNK_SUM(queries, n, d)                                            \
  ((size_t)(queries) *                                                         \
   ((size_t)(n) * sizeof(int64_t) + (size_t)(d) * sizeof(float)))

/* In the hook publish: fills in the zeroed message. It names the k tokens of
 * largest score[i] among tokens first + i, i < n, and all other tokens below
 * at->step. n bytes of workspace. */
void kv_choose_tokens(const kv_at *at, const float *score, int first, int n,
                      int k, kv_chosen *out);

/* In the hook view of a layer with this role. A following layer appends the
 * entries that the message names; any other layer, or one without a message,
 * appends all. lane->n bytes of workspace. */
void kv_view_chosen(const kv_at *at, const kv_lane *lane, kv_role role,
                    kv_view *out);

#ifdef __cplusplus
}
#endif

#endif
