/* SPDX-License-Identifier: Apache-2.0
 *
 * Probabilities of recorded query rows over all tokens that they see, in the
 * canonical arithmetic (rule 4): for whoever looks at whole rows of attention,
 * such as column sums. Memory: 32 rows of logits, and a pointer a token. One
 * kv_rows a thread.
 */
#ifndef KV_TRACES_ROWS_H
#define KV_TRACES_ROWS_H

#include <stdbool.h>

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/kernels/kernels.h"

typedef struct kv_rows {
  const kv_shape *shape;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int most, group; /* recorded rows at once; query heads that read one key */
  int g;           /* the KV head in hand */
  size_t stride;   /* of p: tokens of the longest row */
  float *p;        /* [most][group][stride] */
  float *q, *pack;
  const void **key;
} kv_rows;

/* How many recorded rows are taken at once. */
static inline int kv_rows_most(const kv_shape *shape) {
  enum { QUERIES = 32 }; /* rows of logits, more where a group is */
  int group = kv_group(shape);
  return group < QUERIES ? QUERIES / group : 1;
}

/* Room for rows that see at most so many tokens; release accepts what failed.
 */
kv_rc kv_rows_init(kv_rows *x, const kv_shape *shape, const kv_layer_data *data,
                   const kv_kernels *kernel, int tokens, kv_err *e);
void kv_rows_release(kv_rows *x);

/* From here on the rows are those of the query heads that read KV head g. */
void kv_rows_head(kv_rows *x, int g);

/* Recorded rows first..first+count-1, count <= most: row r of query head m of
 * the group at p + (r * group + m) * stride, its token's number and one more
 * elements. False: a logit is not finite, and p means nothing. */
bool kv_rows_take(kv_rows *x, int first, int count);

/* Token of the i-th recorded row. */
static inline int kv_row_token(const kv_layer_data *data, int i) {
  return data->rows ? data->rows[i] : i;
}

#endif
