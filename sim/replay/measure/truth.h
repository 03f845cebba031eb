/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact attention of one row, of decoding or of a prompt read in chunks,
 * over the whole, uncompressed cache, for the query heads of one KV head.
 * Computed once per (layer, KV head, step) and shared by all cells of a run:
 * their stores reuse its logits (kv_known), and their fidelity is measured
 * against it.
 *
 * The row comes from a tile of rows (sim/replay/measure/tile.h) or is computed
 * alone, with the same bits. What only some measures need (probabilities, their
 * logs, the largest tokens) is computed when first needed.
 *
 * One truth per thread: open; then for each row fill, known, and the measuring
 * (kv_fidelity_row). Open allocates everything, and nothing fails later.
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
  float *share[KV_TOGETHER];     /* [T] p^ by index in the view */
  float sink[KV_TOGETHER];       /* p^ of the sink; 0 without one */
  float *log_share[KV_TOGETHER]; /* [T] fp32 log of a member's p^ */
  double *by_token[KV_TOGETHER]; /* [T] p^ by token */
  int32_t *entry;                /* [T] entry by index in the view */
  int32_t *slot;                 /* [T] index in the view by token, or -1 */
  int32_t *token, *place;        /* [T] tokens of a view, ascending, and their
                                    indexes in it */
  /* Attention over all stored entries: [G][d] [G][T] [G][d_v] [G]. */
  float *q, *s, *out, *lse;
} kv_compare;

/* The end of the k largest logits of a row. A token is among them if its logit
 * is above `least`, or equal and the token at most `last` (rule 2: among
 * equals, the lower tokens). */
typedef struct kv_top_cut {
  float least;
  int32_t last;
} kv_top_cut;

static inline bool kv_top_has(kv_top_cut c, float s, int32_t t) {
  return s > c.least || (s == c.least && t <= c.last);
}

/* Anybody may read it; only the functions below write. */
typedef struct kv_truth {
  const kv_shape *shape;
  const kv_kernels *kernels;
  int layer, kv_head, t; /* of the last fill: the model's layer, g, token */
  int first; /* first token that the row sees: above 0 if a sliding window hides
                earlier ones. Before it s is undefined and p is 0 */
  const float *sinks; /* [G], or NULL: the layer has none */
  bool finite;    /* all logits are finite. If not, only q and s are defined,
                     and nothing is measured against the row */
  bool tiled;     /* the row is from a tile */
  size_t stride;  /* of s, p, log_p: T rounded up to 16 */
  const float *q; /* [G][d] fp32 */
  const float *s; /* [G][stride] logits, arithmetic 1 */
  const float *out, *lse; /* [G][d_v], [G], arithmetic 3 */
  double *norm;           /* [G] |out|2 */
  /* Set by kv_truth_weigh: */
  bool weighed;
  float *p;      /* [G][stride] probabilities, arithmetic 4 */
  float *sink_p; /* [G] the sink's own; 0 without one */
  double *mass;  /* [G] sum of p over the tokens ascending */
  /* Set by kv_truth_mark: */
  bool marked;
  float *log_p;    /* [G][stride] fp32 log of max(p, 2^-126) */
  kv_top_cut *cut; /* [G][n_top] for the top[j] largest logits */
  int n_top;
  int32_t *top; /* [n_top] the k of top-k, ascending, distinct */
  kv_compare compare;
  kv_tile *one;             /* for a row that no tile holds */
  kv_attend_scratch attend; /* may be lent to kv_tile_fill, see steps */
} kv_truth;

/* Shape and kernels must outlive the truth. steps: most rows of a tile that
 * kv_tile_fill computes with the truth's `attend`; >= 1. top: n_top values of k
 * >= 1, in any order, with repeats and values beyond T; 1 and 16 are always
 * added. KV_RESOURCE: memory; *out is then NULL. */
kv_rc kv_truth_open(const kv_shape *shape, const kv_kernels *kernels, int steps,
                    int n_top, const int *top, kv_truth **out, kv_err *e);
void kv_truth_close(kv_truth *x); /* accepts NULL */

/* Fills x with the row of token t of a layer, whose query is recorded, for the
 * query heads of KV head g. Takes it from slot g of the tile, which must not
 * change until the next fill; tile NULL: computes it. */
void kv_truth_fill(kv_truth *x, const kv_layer_data *data, int g, int t,
                   const kv_tile *tile);
/* Computes the row's probabilities and their masses, once. */
void kv_truth_weigh(kv_truth *x);
/* Also computes their logs and the cuts, once. */
void kv_truth_mark(kv_truth *x);

/* What the stores of that KV head's lanes may reuse: logits and, for a row from
 * a tile, also its output. A row that was computed alone lends no output, so
 * that a replay row by row checks the tiled one. Valid until the next fill. */
kv_known kv_truth_known(const kv_truth *x);

/* Index of k in top, which must contain it (asserted). */
int kv_truth_top(const kv_truth *x, int k);

/* cut[n_top]: the ends of the top[j] largest of the logits s[n], all finite;
 * top is ascending. token, place, value and x are scratch of n elements each.
 */
void kv_rank_top(const kv_kernels *kernel, int n, const float *s, int n_top,
                 const int32_t *top, int32_t *token, int32_t *place,
                 float *value, float *x, kv_top_cut *cut);

#endif
