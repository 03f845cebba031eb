/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorded head attends to: means over its recorded rows. Figures do
 * not depend on the number of threads, and no libm is in them.
 */
#ifndef KV_TRACES_ATTENTION_H
#define KV_TRACES_ATTENTION_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

enum {
  KV_ATTENTION_FROM = 64,  /* rows of earlier tokens see too little */
  KV_ATTENTION_RECENT = 32 /* the row's own token and those before it */
};

/* Each a mean over rows; 0 where there is none. */
typedef struct kv_attention {
  long rows;      /* recorded rows from token KV_ATTENTION_FROM on */
  double entropy; /* nats */
  double first;   /* mass on token 0 */
  double recent;  /* mass on the KV_ATTENTION_RECENT newest tokens */
  double tokens;  /* share of the tokens seen that 95 % of the mass needs */
  long asked;     /* rows, of any token, that predict one of an answer, */
  double needle;  /* and their mass on the token which it repeats */
} kv_attention;

/* Of the i-th recorded layer, out[n_heads]. Memory, a thread: 32 rows of
 * logits, and 8 numbers a row and head. KV_INPUT where a number, or a logit,
 * is not finite. */
kv_rc kv_attention_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                         kv_attention *out, kv_err *e);

/* A head with a sink has at least so much of its mass on token 0. */
#define KV_ATTENTION_SINK 0.3

/* One word for it, the first that holds: "retrieval", three tenths of the mass
 * on the needle; "sink", on token 0; "local", half of it on the newest tokens;
 * "broad". "none": no row to judge by. */
const char *kv_attention_word(const kv_attention *a);

#endif
