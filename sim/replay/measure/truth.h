/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact attention of one row, of decoding or of a prompt read in chunks,
 * over the whole, uncompressed cache, for the query heads of one KV head. It is
 * computed once per (layer, KV head, step) and shared by all cells of a run:
 * their stores reuse its logits (kv_known), and their fidelity is measured
 * against the rest.
 *
 * The row comes from a tile of rows (sim/replay/measure/tile.h), or is computed
 * alone; the bits are the same. What only some measures want (probabilities,
 * their logs, who is among the largest) is computed when the first asks.
 *
 * One truth per thread: open; then for each row fill, known, and what measures
 * it (kv_fidelity_row). All memory is taken at open, and nothing fails later.
 * Memory: 16 bytes a token and query head of the group and 80 a token, touched
 * only as far as rows are long. G: query heads of a KV head; T: tokens of the
 * trace.
 */
#ifndef KV_SIM_TRUTH_H
#define KV_SIM_TRUTH_H

#include "ref/backend/attend.h"
#include "ref/backend/backend.h"
#include "sim/replay/measure/tile.h"

/* Scratch of kv_fidelity_row for up to KV_TOGETHER query heads at a time. p^:
 * the probabilities of the compressed attention. */
enum { KV_TOGETHER = 4 };
typedef struct kv_compare {
  float *share[KV_TOGETHER];     /* [T] p^ by place in the view */
  float sink[KV_TOGETHER];       /* p^ of the sink; 0 where there is none */
  float *log_share[KV_TOGETHER]; /* [T] fp32 log of a member's p^ */
  double *by_token[KV_TOGETHER]; /* [T] p^ by token */
  int32_t *entry;                /* [T] entry by place in the view */
  int32_t *slot;                 /* [T] place by token; -1: not there */
  int32_t *token, *place;        /* [T] tokens of a view, ascending, and the
                                    place of each in it */
  /* Attention over all stored entries: [G][d] [G][T] [G][d_v] [G]. */
  float *q, *s, *out, *lse;
} kv_compare;

/* Where the k largest logits of a row end: a token is among them if its logit
 * is above `least`, or equal and the token at most `last` (rule 2: of equals,
 * the lower tokens). */
typedef struct kv_top_cut {
  float least;
  int32_t last;
} kv_top_cut;

static inline bool kv_top_has(kv_top_cut c, float s, int32_t t) {
  return s > c.least || (s == c.least && t <= c.last);
}

/* Callers read it; kv_truth_fill and what follows it write it. */
typedef struct kv_truth {
  const kv_shape *shape;
  const kv_kernels *kernels;
  int layer, kv_head, t; /* of the last fill: the model's layer, g, token */
  int first; /* the first token that row sees: above 0 where the layer has a
                sliding window. s is junk before it, p is 0 */
  const float *sinks; /* [G], or NULL: the layer has none */
  bool finite;    /* all logits are finite; if not, only q and s mean anything,
                     the row has no truth, and nothing is measured against it */
  bool tiled;     /* the row is of a tile */
  size_t stride;  /* of s, p, log_p: T rounded up to 16 */
  const float *q; /* [G][d] fp32 */
  const float *s; /* [G][stride] logits, arithmetic 1 */
  const float *out, *lse; /* [G][d_v], [G], arithmetic 3 */
  double *norm;           /* [G] |out|2 */
  /* Of kv_truth_weigh: */
  bool weighed;
  float *p;      /* [G][stride] probabilities, arithmetic 4 */
  float *sink_p; /* [G] the sink's own; 0 where the layer has none */
  double *mass;  /* [G] sum of p over the tokens ascending */
  /* Of kv_truth_mark: */
  bool marked;
  float *log_p;    /* [G][stride] fp32 log of max(p, 2^-126) */
  kv_top_cut *cut; /* [G][n_top] of the top[j] largest logits */
  int n_top;
  int32_t *top; /* [n_top] the k of top-k, ascending, distinct */
  kv_compare compare;
  kv_tile *one;             /* room for a row that no tile holds */
  kv_attend_scratch attend; /* may be lent to kv_tile_fill, see steps */
} kv_truth;

/* Shape and kernels must outlive the truth. steps: most rows of a tile
 * that kv_tile_fill is given the truth's `attend` for; >= 1. top: n_top values
 * of k >= 1, in any order; repeats and values beyond T are allowed, and 1 and
 * 16 are always added. KV_RESOURCE: memory; *out is then NULL. */
kv_rc kv_truth_open(const kv_shape *shape, const kv_kernels *kernels, int steps,
                    int n_top, const int *top, kv_truth **out, kv_err *e);
void kv_truth_close(kv_truth *x); /* accepts NULL */

/* Fills x with the row of token t, whose query is recorded, of a layer for the
 * query heads of KV head g: from place g of the tile, which then must not
 * change until the next fill, or computed by itself where tile is NULL. */
void kv_truth_fill(kv_truth *x, const kv_layer_data *data, int g, int t,
                   const kv_tile *tile);
/* Computes the row's probabilities and their masses, once. */
void kv_truth_weigh(kv_truth *x);
/* Computes their logs and the cuts besides, once. */
void kv_truth_mark(kv_truth *x);

/* What the stores of lanes of that KV head may reuse: of a row of a tile its
 * output too. A row that was computed by itself lends none, so that a replay
 * row by row is a check of the other. Valid until the next fill. */
kv_known kv_truth_known(const kv_truth *x);

/* Index of k in top; asserts that it was asked for at open. */
int kv_truth_top(const kv_truth *x, int k);

/* cut[n_top]: where the top[j] largest of the logits s[n], all finite, end; top
 * ascending. token, place, value and x are scratch of n elements each. */
void kv_rank_top(const kv_kernels *kernel, int n, const float *s, int n_top,
                 const int32_t *top, int32_t *token, int32_t *place,
                 float *value, float *x, kv_top_cut *cut);

#endif
