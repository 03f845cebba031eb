/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact attention of one decode row, over the whole, uncompressed cache,
 * for the query heads of one KV head. It is computed once per (layer, KV head,
 * step) and shared by all cells of a run: their stores reuse its logits
 * (kv_known), and their fidelity is measured against the rest.
 *
 * One truth per thread. All memory is taken at open; fill allocates nothing and
 * costs one pass over the K and V rows of tokens 0..t and a few passes over the
 * logits. Memory: about 40 bytes a token and query head of the group, touched
 * only as far as rows are long.
 */
#ifndef KV_SIM_TRUTH_H
#define KV_SIM_TRUTH_H

#include "ref/backend/attend.h"
#include "ref/backend/backend.h"

/* Scratch of kv_fidelity_row for up to KV_TOGETHER query heads at a time. */
enum { KV_TOGETHER = 4 };
typedef struct kv_compare {
  float *share[KV_TOGETHER];     /* [T] p^ by place in the view */
  float *log_share[KV_TOGETHER]; /* [T] fp32 log of a member's p^ */
  double *spread[KV_TOGETHER];   /* [T] p^ by token */
  int32_t *entry;                /* [T] entry by place in the view */
  int32_t *slot;                 /* [T] place by token; -1: not there */
  int32_t *token, *place;        /* [T] tokens of a view ascending; where */
  float *q, *s, *out, *lse;      /* all stored entries: [G][d] [G][T] ... */
} kv_compare;

typedef struct kv_truth {
  const kv_shape *shape;
  const kv_rope *rope;
  const kv_kernels *kernels;
  int layer, kv_head, t; /* of the last fill */
  bool finite;   /* all logits are finite; if not, only q and s are filled, the
                    row has no truth, and each cell computes its own */
  size_t stride; /* of s, p, log_p, rank: T rounded up to 16 */
  float *q;      /* [G][d] fp32 */
  float *s;      /* [G][stride] logits, arithmetic 1 */
  float *p;      /* [G][stride] probabilities, arithmetic 4 */
  float *log_p;  /* [G][stride] fp32 log of max(p, 2^-126) */
  float *out, *lse; /* [G][d_v], [G], arithmetic 3 */
  double *mass;     /* [G] sum of p over the tokens ascending */
  double *norm;     /* [G] |out|2 */
  int n_top;
  int32_t *top;   /* [n_top] the k of top-k, ascending, distinct */
  uint16_t *rank; /* [G][stride] the least j with the token among the
                     top[j] largest logits; n_top: in none */
  bool *keep;     /* [T] scratch of the ranking */
  kv_compare compare;
  kv_attend_scratch attend;
} kv_truth;

/* Shape, rope and kernels must outlive the truth. top: n_top values of k >= 1,
 * in any order; repeats and values beyond T are allowed, and 1 and 16 are
 * always added. */
kv_rc kv_truth_open(const kv_shape *shape, const kv_rope *rope,
                    const kv_kernels *kernels, int n_top, const int *top,
                    kv_truth **out, kv_err *e);
void kv_truth_close(kv_truth *x); /* accepts NULL */

/* Fills x with the row of token t >= prompt_len for the query heads of KV head
 * g. */
void kv_truth_fill(kv_truth *x, const kv_layer_data *data, int g, int t);

/* What the stores of lanes of that KV head may reuse. Valid until the next
 * fill. */
kv_known kv_truth_known(const kv_truth *x);

/* Index of k in top; asserts that it was asked for at open. */
int kv_truth_top(const kv_truth *x, int k);

/* Computes rank (see kv_truth) of s[0..n). keep, list and value are scratch of
 * n elements. */
void kv_rank_top(int n, const float *s, int n_top, const int32_t *top,
                 bool *keep, int32_t *list, float *value, uint16_t *rank);

#endif
