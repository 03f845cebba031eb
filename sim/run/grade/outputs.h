/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the outputs of another attention ("theirs") with ours, row by row.
 * Theirs is a safetensors file with layers.L.o [n_heads, steps, d_v] as
 * `kvreplay run --outputs` writes it (F32, F16 or BF16), and optionally
 * layers.L.lse [n_heads, steps]. An element matches if |theirs - ours| <= atol
 * + rtol * the largest finite |ours| of its row: an output is a mean of values,
 * so its rounding error is proportional to the row, even if an element is near
 * zero. An LSE matches within atol + rtol * max(1, |ours|): a relative error of
 * the sum is an absolute error of its logarithm. A row is wrong if an element,
 * or its LSE, does not match. A number that is not finite, theirs or ours,
 * matches nothing.
 *
 * Units in the last place refer to their type; ours is rounded to it first.
 *
 * Order of calls: open; kv_outputs_row for each row of a replay of ours; the
 * sums of each layer and kv_outputs_damaged; close. A layer's index counts the
 * recorded layers of the trace.
 */
#ifndef KV_SIM_OUTPUTS_H
#define KV_SIM_OUTPUTS_H

#include "traces/trace/trace.h"

#include <stdbool.h>

enum { KV_ULP_BUCKETS = 8 };
/* Upper bounds of the buckets of ulp differences: 0 1 2 4 8 16 64; the last
 * bucket has none. */
extern const int kv_ulp_most[KV_ULP_BUCKETS - 1];

/* One number of theirs and ours. */
typedef struct kv_output_place {
  int layer, step, head; /* the model's layer; tokens seen; query head */
  int element;           /* 0 .. d_v - 1; -1: the LSE of the row */
  float theirs, ours;
} kv_output_place;

/* Results for one layer, or several. Differences are |theirs - ours|, infinite
 * if either is not finite. */
typedef struct kv_output_sums {
  int64_t rows, wrong;         /* compared; wrong ones */
  int64_t elements, matched;   /* of all rows; those within tolerance */
  int64_t ulp[KV_ULP_BUCKETS]; /* elements by their distance in ulp */
  double square, ours;         /* sums of squares of differences, and of ours */
  double most;                 /* largest difference */
  kv_output_place worst;       /* where it is; valid if rows > 0 */
  int64_t lses;                /* LSEs that were compared */
  double lse_most;             /* largest difference of an LSE, in nats */
  kv_output_place lse_worst;   /* where it is; valid if lses > 0 */
  int64_t lse_matched;         /* LSEs within tolerance, as read */
  int64_t lse_other;           /* LSEs that would be, in the other base */
  kv_output_place first;       /* worst element of the first wrong row */
} kv_output_sums;

/* The L2 norm of all differences over that of ours; 0 if both are 0, infinite
 * if only ours is. */
double kv_output_relative(const kv_output_sums *s);
/* Adds sums of another layer; of equal largest differences the first stays. */
void kv_output_add(const kv_output_sums *from, kv_output_sums *to);

typedef struct kv_outputs kv_outputs;

/* How to compare. */
typedef struct kv_outputs_how {
  double atol, rtol; /* absolute and relative tolerance; < 0: the default of the
                        type: F32 1e-5 and 1.3e-6, F16 1e-5 and 1e-3, BF16 1e-5
                        and 1.6e-2 */
  bool lse_base2;    /* their LSE is to base 2; ours is natural */
  bool all;          /* keep every wrong row, not only the first */
} kv_outputs_how;

/* Opens their file and maps it. path and t outlive *out; prompt_len: tokens
 * after which decoding begins. KV_INPUT: it cannot be read, or a tensor is
 * missing, has another shape than the trace requires, or another type than the
 * first layer's (an LSE may have any of the three). KV_RESOURCE: memory. */
kv_rc kv_outputs_open(const char *path, const kv_trace *t, int prompt_len,
                      const kv_outputs_how *how, kv_outputs **out, kv_err *e);
void kv_outputs_close(kv_outputs *o); /* accepts NULL */

/* Compares one row with theirs: out[d_v] and lse (natural) are ours, for the
 * index-th layer, step (tokens seen, above prompt_len) and query head. One
 * thread must pass all rows of a layer. */
void kv_outputs_row(kv_outputs *o, int index, int step, int head,
                    const float *out, float lse);

/* The sums of the index-th layer so far. */
const kv_output_sums *kv_outputs_layer(const kv_outputs *o, int index);
/* The worst elements of a layer's *n wrong rows; none unless how->all. */
const kv_output_place *kv_outputs_wrong(const kv_outputs *o, int index,
                                        int64_t *n);
/* The type of their outputs: "F32", "F16" or "BF16". */
const char *kv_outputs_type(const kv_outputs *o);
/* The settings in use, with the tolerances filled in; valid as long as o. */
const kv_outputs_how *kv_outputs_asked(const kv_outputs *o);
/* Call it after the last row. KV_INPUT if the file changed since it was opened;
 * KV_RESOURCE if memory ran out while wrong rows were kept. */
kv_rc kv_outputs_damaged(const kv_outputs *o, kv_err *e);

/* Writes "layer 0, step 138, query head 3, element 7: 0.25, ours is 0.5";
 * returns out. */
enum { KV_OUTPUT_TEXT = 160 };
const char *kv_output_text(const kv_output_place *p, char out[KV_OUTPUT_TEXT]);

#endif
