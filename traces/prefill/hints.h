/* SPDX-License-Identifier: Apache-2.0
 *
 * What patterns look at before they choose (kv_pattern_of of
 * traces/prefill/pattern.h), of one query head after another: the attention of
 * the prompt's last rows, and means of blocks.
 *
 *   init; _head for each query head, in order; release
 */
#ifndef KV_TRACES_HINTS_H
#define KV_TRACES_HINTS_H

#include "traces/prefill/pattern.h"
#include "traces/trace/rows.h"

typedef struct kv_hints {
  kv_pattern_of of; /* of the head in hand; it points at what is below */
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int64_t *column, *distance; /* [tokens] */
  float *pooled;              /* [pairs] */
  float *q, *k;               /* [blocks][d] means of queries and keys */
  const void **key;           /* [blocks] rows of k */
  float *row, *pack;          /* [d], and of kv_kernels.logits */
  kv_row_probs rows;
} kv_hints;

/* Of the i-th recorded layer; grid, trace and kernel must outlive x.
 * KV_RESOURCE: memory, 4 bytes a pair, 16 a token and one row of logits for
 * each query head of a KV head. *x is for release, also after a failure. */
kv_rc kv_hints_init(kv_hints *x, const kv_grid *grid, const kv_trace *t, int i,
                    const kv_kernels *kernel, kv_err *e);
void kv_hints_release(kv_hints *x);

/* x->of becomes that of query head h. Cost: a pass over its queries, for the
 * first of a KV head over keys, and the logits of `block` rows. KV_INPUT: a
 * logit, or the product of two means, is not finite. */
kv_rc kv_hints_head(kv_hints *x, int h, kv_err *e);

#endif
