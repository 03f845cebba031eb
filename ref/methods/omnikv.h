/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of omnikv, shared with its CUDA twin (ref/lane/params.h), the
 * role of a layer, and the candidates of a step.
 */
#ifndef KV_REF_METHODS_OMNIKV_H
#define KV_REF_METHODS_OMNIKV_H

#include "ref/lane/params.h"
#include "ref/parts/filter.h"
#include "ref/parts/ring.h"

enum { OMNIKV, SPARSE_VLLM };          /* roles */
enum { LAST, UNIFORM, EXP };           /* selector */
enum { PROMPT, HISTORY };              /* candidates */
enum { DEVICE, HOST };                 /* where followers store the prompt */
enum { MOST_WINDOW = 64, AHEAD = 16 }; /* floats before a lane's query ring */

#define PARAMS(P)                                                              \
  P(INT, k, NULL, 1, 1 << 30, "tokens",                                        \
    "candidates that the following layers attend; default: share of the "      \
    "prompt; with roles=sparse-vllm 4096 as in its code",                      \
    .knob = KV_KNOB_RESOLVED)                                                  \
  P(REAL, share, NULL, 0, 1,                                                   \
    "k as a share, rounded down, at least one; default 0.067 as in the "       \
    "authors' example, 0 if k is given",                                       \
    .unit = "share of the prompt")                                             \
  P(TEXT, layers,                                                              \
    "filters, such as 2/8/18; default: the authors' example, scaled by L / "   \
    "32; below 16 layers max(1, L div 4)")                                     \
  P(INT, wait, NULL, 0, 1 << 20, "layers",                                     \
    "layers below a filter that attend everything; default 1 as in the "       \
    "authors' example, 0 below 16 layers")                                     \
  P(CHOICE, score, NULL, "prob|logit|dot",                                     \
    "value of a candidate: prob, the default of the authors' code; logit, as " \
    "in their example; dot: unscaled, the default of roles=sparse-vllm")       \
  P(CHOICE, selector, "last", "last|uniform|exp",                              \
    "which queries vote: the current one, as in the authors' example, or the " \
    "last `window`")                                                           \
  P(INT, window, "16", 1, MOST_WINDOW, "queries",                              \
    "queries that vote with uniform and exp; 16 as in the authors' code")      \
  P(CHOICE, candidates, NULL, "prompt|history",                                \
    "prompt: generated tokens are always attended, as in the authors' code; "  \
    "history: the default of roles=sparse-vllm")                               \
  P(INT, sink, NULL, 0, 1 << 30, "tokens",                                     \
    "first tokens, always attended; default 0, for candidates=history 64 as "  \
    "in Sparse-vLLM")                                                          \
  P(INT, recent, NULL, 0, 1 << 30, "tokens",                                   \
    "last tokens, always attended; default 0, for candidates=history 512 as "  \
    "in Sparse-vLLM")                                                          \
  P(CHOICE, roles, "omnikv", "omnikv|sparse-vllm",                             \
    "sparse-vllm: `layers` attend everything, and the last of each run of "    \
    "them chooses")                                                            \
  P(CHOICE, tier, NULL, "device|host",                                         \
    "where following layers store the prompt; default host as in the paper, "  \
    "with roles=sparse-vllm device as in its code")                            \
  P(ONLY, kv_layer_list list) /* of `layers` */
KV_PARAMS(PARAMS);

/* What a layer does. */
KV_FN kv_role role_of(const params *o, int n_layers, int layer) {
  const kv_layer_list *l = &o->list;
  int i = kv_layer_above(l, layer);
  if (o->roles == SPARSE_VLLM) return kv_full_role(l, n_layers, layer);
  if (i < 0) return KV_WHOLE;
  if (layer == l->layer[i]) return KV_CHOOSES;
  return layer - l->layer[i] <= o->wait ? KV_WHOLE : KV_FOLLOWS;
}

/* Queries that vote. */
KV_FN int voters(const params *o) {
  return o->selector == LAST ? 1 : o->window;
}

/* Bytes of a lane's state before the sums of a chunk: the ring, and the largest
 * values of each query that votes. */
KV_FN size_t sums_at(const kv_shape *s, int votes) {
  size_t floats =
      AHEAD + kv_ring_floats(s, votes) + (size_t)votes * (size_t)s->n_tokens;
  return (floats * sizeof(float) + 7) / 8 * 8;
}

/* Tokens first..end-1 are candidates at a step, and k of them win; all tokens
 * outside are attended. */
typedef struct contest {
  int first, end, k;
} contest;

/* The contest of the chunk that ends at `step`: tokens stored when it began,
 * except sinks and recent tokens. */
KV_FN contest chunk_contest(const params *o, const kv_shape *s, int step) {
  contest c = {o->sink, kv_chunk_first(s, step) - o->recent, o->k};
  if (c.end < c.first) c.end = c.first;
  return c;
}

/* The first token that goes to the host at the end of the prompt, or of a
 * chunk, at `step`: earlier tokens went with earlier chunks. */
KV_FN int first_gone(const params *o, const kv_shape *s, int step) {
  int gone = kv_chunk_first(s, step) - o->recent;
  return gone > o->sink ? gone : o->sink;
}

/* The contest of decoding at `step` tokens seen. */
KV_FN contest contest_at(const params *o, int prompt_len, int step) {
  int inside = voters(o) - (step - prompt_len); /* of the prompt, that vote */
  contest c = {o->sink, o->candidates == PROMPT ? prompt_len : step - 1, o->k};
  if (inside > 0 && o->selector != LAST) {
    c.end -= inside;
    c.k = c.k > inside ? c.k - inside : 1;
  }
  if (c.end > step - o->recent) c.end = step - o->recent;
  if (c.end < c.first) c.end = c.first;
  return c;
}

#endif
