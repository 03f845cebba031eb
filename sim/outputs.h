/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs of somebody else's attention against ours, row by row: a
 * safetensors file with layers.L.o [n_heads, steps, d_v] as `kvreplay run
 * --outputs` writes it (F32, F16 or BF16), and perhaps layers.L.lse
 * [n_heads, steps]. An element matches where |theirs - ours| <= atol + rtol *
 * |ours|; a row is wrong where one element, or its LSE, does not.
 *
 * Units in the last place are of their type: ours is rounded to it first.
 */
#ifndef KV_SIM_OUTPUTS_H
#define KV_SIM_OUTPUTS_H

#include "traces/trace.h"

enum { KV_ULP_BUCKETS = 8 };
/* Most of a bucket, the last one open: 0 1 2 4 8 16 64. */
extern const int kv_ulp_most[KV_ULP_BUCKETS - 1];

/* One number of theirs beside ours; element -1: the LSE of the row. */
typedef struct kv_output_place {
  int layer, step, head, element;
  float theirs, ours;
} kv_output_place;

typedef struct kv_output_sums {
  int64_t rows, wrong, elements, matched;
  int64_t ulp[KV_ULP_BUCKETS];
  double square, ours;   /* sums of squares: of differences, and of ours */
  double most;           /* largest difference, */
  kv_output_place worst; /* and where; rows > 0 */
  int64_t lses;
  double lse_most;
  kv_output_place lse_worst; /* lses > 0 */
  kv_output_place first;     /* the worst of the first wrong row */
} kv_output_sums;

double kv_output_relative(const kv_output_sums *s); /* L2 */
void kv_output_add(const kv_output_sums *from, kv_output_sums *to);

typedef struct kv_outputs kv_outputs;

/* atol or rtol < 0: the type's usual (F32 1e-5 and 1.3e-6, F16 1e-5 and 1e-3,
 * BF16 1e-5 and 1.6e-2). KV_INPUT where a tensor is missing, has another
 * shape than the trace, decoding from prompt_len on, asks for, or another type
 * than the first layer's (the LSE may have any). */
kv_rc kv_outputs_open(const char *path, const kv_trace *t, int prompt_len,
                      double atol, double rtol, kv_outputs **out, kv_err *e);
void kv_outputs_close(kv_outputs *o); /* accepts NULL */

/* A row of ours, index-th recorded layer; rows of one layer from one thread. */
void kv_outputs_row(kv_outputs *o, int index, int step, int head,
                    const float *out, float lse);

const kv_output_sums *kv_outputs_layer(const kv_outputs *o, int index);
const char *kv_outputs_type(const kv_outputs *o); /* F16 */
void kv_outputs_tolerance(const kv_outputs *o, double *atol, double *rtol);
/* KV_INPUT once the file has changed since it was opened. */
kv_rc kv_outputs_damaged(const kv_outputs *o, kv_err *e);

/* "layer 0, step 138, query head 3, element 7: 0.25, not 0.5 (ours)". */
enum { KV_OUTPUT_TEXT = 160 };
const char *kv_output_text(const kv_output_place *p, char out[KV_OUTPUT_TEXT]);

#endif
