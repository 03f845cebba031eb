/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention probabilities of recorded query rows over all tokens up to their
 * own, 0 for those that a sliding window hides, in the canonical arithmetic
 * (ref/ground/arith.h); they add up to 1, or to less beside a learned sink. For
 * figures that look at whole rows, such as column sums.
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
  int most;        /* recorded rows of a block, at most */
  int group;       /* query heads that read one KV head */
  int g;           /* the KV head of kv_row_probs_head */
  size_t stride;   /* floats between rows of p: `tokens` of kv_row_probs_init */
  float *p;        /* [most][group][stride] probabilities */
  int from;        /* tokens before it are seen by no row of the block */
  float *r;        /* [group][most] of kv_row_probs_exp */
  float *q, *pack; /* scratch: queries as binary32, of kv_kernels.logits */
  const void **key; /* [stride] rows of K of head g */
} kv_row_probs;

/* What `most` will be, for dealing out blocks before there is a kv_row_probs:
 * 32 rows of logits, but always one row of every query head of a group. */
static inline int kv_row_probs_most(const kv_shape *shape) {
  enum { QUERIES = 32 };
  int group = kv_group(shape);
  return group < QUERIES ? QUERIES / group : 1;
}

/* Allocates for rows that see at most `tokens` tokens; shape, data and kernel
 * must outlive x. KV_RESOURCE: memory; *x is empty then. Release frees it, or
 * an empty one. */
kv_rc kv_row_probs_init(kv_row_probs *x, const kv_shape *shape,
                        const kv_layer_data *data, const kv_kernels *kernel,
                        int tokens, kv_err *e);
void kv_row_probs_release(kv_row_probs *x);

/* From here on rows are those of the query heads that read KV head g. */
void kv_row_probs_head(kv_row_probs *x, int g);

/* Computes recorded rows first .. first + count - 1 (indices into the layer's
 * recorded rows; 1 <= count <= most, asserted). Those of row r (from 0) of the
 * m-th query head begin at p + (r * group + m) * stride: one float a token, up
 * to the row's own. False: a logit is not finite, and p means nothing. */
bool kv_row_probs_take(kv_row_probs *x, int first, int count);

/* The same without dividing by a row's sum: from x->from up to the block's last
 * token p holds exponentials, 0 where a row does not see, and r[m * most + r']
 * 1 / the sum of row r' of the m-th query head, so that their product, rounded,
 * is the probability. What p holds before x->from means nothing. */
bool kv_row_probs_exp(kv_row_probs *x, int first, int count);

/* The token of the i-th recorded row of a layer. */
static inline int kv_row_token(const kv_layer_data *data, int i) {
  return data->rows ? data->rows[i] : i;
}

#endif
