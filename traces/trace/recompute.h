/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention of recorded query rows, within a layer's sliding window and
 * with its cap on logits and its sinks, in the canonical arithmetic
 * (ref/ground/arith.h). It gives what the outputs o must be if q, k and v are
 * correct. Used to check a trace and to give a synthetic one its outputs; the
 * replay engine has its own.
 *
 *   init once a thread, kv_recompute_block for each block of rows, release
 *
 * Memory of one: a partial output for each query and 128 tokens, 16 MB at
 * 131,072 tokens of dimension 128.
 */
#ifndef KV_TRACES_RECOMPUTE_H
#define KV_TRACES_RECOMPUTE_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/rows.h"

/* m = rows * group queries (group: query heads of a KV head); c chunks of 128
 * tokens. The caller uses `rows`, q and out; the rest is scratch. */
typedef struct kv_recompute {
  int rows;           /* most recorded rows of a block, 32 / group but >= 1 */
  float *q;           /* [m][d] the block's queries, as binary32 */
  float *out;         /* [m][d_v] the block's outputs, [row][query head] */
  float *s;           /* [m][128] logits, then weights of one chunk */
  float *top, *sum;   /* [m][c] largest logit and sum of weights of a chunk */
  float *part;        /* [c][m][d_v] weighted values of a chunk */
  float *pack;        /* of kv_kernels.logits */
  const void **key;   /* [128] rows of K of one chunk */
  const void **value; /* [128] rows of V */
} kv_recompute;

/* Allocates for a trace of that shape. KV_RESOURCE: memory; *x is then empty,
 * and release accepts it. */
kv_rc kv_recompute_init(kv_recompute *x, const kv_shape *shape, kv_err *e);
void kv_recompute_release(kv_recompute *x);

/* Computes recorded rows first .. first + count - 1 (indices into the recorded
 * rows of the layer `data`; 1 <= count <= x->rows, asserted) of the query heads
 * that read KV head g. Row r of the m-th such head, both from 0, begins at
 * x->out + (r * group + m) * d_v. */
void kv_recompute_block(kv_recompute *x, const kv_kernels *kernel,
                        const kv_shape *shape, const kv_layer_data *data, int g,
                        int first, int count);

#endif
