/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens of a recorded layer as vectors: of each token the keys of all KV
 * heads as before their rotation, head after head, then the values of all KV
 * heads, in binary32. That is the space in which DeltaKV measures distances;
 * the keys alone are the one in which its authors' figure does.
 */
#ifndef KV_SIM_INSPECT_ROWS_H
#define KV_SIM_INSPECT_ROWS_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

typedef struct kv_token_rows {
  int n, width; /* tokens; elements of a row: KV heads * (d + d_v), */
  int keys;     /* of which the first so many are keys: KV heads * d */
  float *row;   /* [n][width] */
} kv_token_rows;

/* Reads the i-th recorded layer. KV_INPUT: the trace has no RoPE frequencies,
 * or a number of the layer is not finite; KV_RESOURCE: memory. Close it also
 * after a failure. Memory: as above, and sine and cosine of every token. */
kv_rc kv_token_rows_open(const kv_trace *t, int i, const kv_kernels *kernel,
                         int threads, kv_token_rows *out, kv_err *e);
void kv_token_rows_close(kv_token_rows *r); /* accepts zeroed */

/* The row of token t. */
static inline const float *kv_token_row(const kv_token_rows *r, int t) {
  return r->row + (size_t)t * (size_t)r->width;
}

#endif
