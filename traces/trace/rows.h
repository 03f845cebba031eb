/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention probabilities of recorded query rows over all tokens up to their
 * own, in the canonical arithmetic (ref/ground/arith.h). Tokens hidden by a
 * sliding window get 0. A row adds up to 1, or to less if the head has a
 * learned sink. Used for numbers computed from whole rows, such as column sums.
 *
 *   kv_row_probs_init once a thread, _head for each KV head, _take or _exp for
 *   each block of rows, _release
 *
 * Memory of one: 32 rows of logits and a pointer a token.
 */
#ifndef KV_TRACES_ROWS_H
#define KV_TRACES_ROWS_H

#include <stdbool.h>

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/kernels/kernels.h"

typedef struct kv_row_probs {
  const kv_shape *shape;
  const kv_layer_data *data; /* the layer */
  const kv_kernels *kernel;
  int most;        /* most recorded rows of a block */
  int group;       /* query heads that read one KV head */
  int g;           /* the KV head of kv_row_probs_head */
  size_t stride;   /* floats between rows of p: `tokens` of kv_row_probs_init */
  float *p;        /* [most][group][stride] probabilities */
  int from;        /* no row of the block sees a token before this one */
  float *r;        /* [group][most], see kv_row_probs_exp */
  float *q, *pack; /* scratch: queries as binary32; for kv_kernels.logits */
  const void **key; /* [stride] rows of K of head g */
} kv_row_probs;

/* The value of `most`, for dividing blocks before a kv_row_probs exists: 32
 * rows of logits, but at least one row of every query head of a group. */
static inline int kv_row_probs_most(const kv_shape *shape) {
  enum { QUERIES = 32 };
  int group = kv_group(shape);
  return group < QUERIES ? QUERIES / group : 1;
}

/* Allocates for rows that see at most `tokens` tokens; shape, data and kernel
 * must outlive x. KV_RESOURCE: memory; *x is then empty. Release frees it and
 * accepts an empty one. */
kv_rc kv_row_probs_init(kv_row_probs *x, const kv_shape *shape,
                        const kv_layer_data *data, const kv_kernels *kernel,
                        int tokens, kv_err *e);
void kv_row_probs_release(kv_row_probs *x);

/* From here on rows belong to the query heads that read KV head g. */
void kv_row_probs_head(kv_row_probs *x, int g);

/* Computes recorded rows first .. first + count - 1 (indices into the layer's
 * recorded rows; 1 <= count <= most, asserted). Row r of the m-th query head,
 * both from 0, begins at p + (r * group + m) * stride: one float a token, up to
 * the row's own. False: a logit is not finite, and p is undefined. */
bool kv_row_probs_take(kv_row_probs *x, int first, int count);

/* The same without dividing by a row's sum. From x->from up to the block's last
 * token p holds exponentials, 0 for tokens that a row does not see. r[m * most
 * + r'] is 1 / the sum of row r' of the m-th query head; the rounded product is
 * the probability. p before x->from is undefined. */
bool kv_row_probs_exp(kv_row_probs *x, int first, int count);

/* The token of the i-th recorded row of a layer. */
static inline int kv_row_token(const kv_layer_data *data, int i) {
  return data->rows ? data->rows[i] : i;
}

#endif
