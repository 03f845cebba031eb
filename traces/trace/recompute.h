/* SPDX-License-Identifier: Apache-2.0
 *
 * Full causal attention of recorded query rows, in the canonical arithmetic:
 * what `o` must be if q, k and v are what they claim. For checking a trace
 * and for giving a synthetic one its outputs; the replay engine has its own.
 *
 * Memory per kv_recompute: one partial output per chunk of 128 tokens and
 * query, 16 MB at 131,072 tokens of dimension 128. One thread each.
 */
#ifndef KV_TRACES_RECOMPUTE_H
#define KV_TRACES_RECOMPUTE_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/rows.h"

typedef struct kv_recompute {
  int rows; /* most rows of a block: their queries share the keys */
  float *q, *s, *top, *sum, *part, *out, *pack;
  const void **key, **value;
} kv_recompute;

kv_rc kv_recompute_init(kv_recompute *x, const kv_shape *shape, kv_err *e);
void kv_recompute_release(kv_recompute *x);

/* Rows first..first+count-1 (indices into the recorded rows, count <=
 * x->rows) of the query heads that read KV head g; result in
 * x->out[row][member][d_v], row counted from first. */
void kv_recompute_block(kv_recompute *x, const kv_kernels *kernel,
                        const kv_shape *shape, const kv_layer_data *data, int g,
                        int first, int count);

#endif
