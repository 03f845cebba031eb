/* SPDX-License-Identifier: Apache-2.0
 *
 * What a share of the probability selects, as Hard-KV's paper looks at it (its
 * figures 2, 3, 17 and 19): of some rows of a layer, by KV head, how many
 * tokens hold 60 and 90 % of it as attention sees it and as an adapter does,
 * before calibration and after, and the temperature that this takes. By the
 * parts of ref that hardkv is made of (ref/parts/votes.h), with nothing
 * dropped: a row is a window of one query, which sees every earlier token.
 */
#ifndef KV_SIM_INSPECT_SELECTION_H
#define KV_SIM_INSPECT_SELECTION_H

#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

enum {
  KV_CHOICES_FROM = 64,    /* rows of earlier tokens see too little */
  KV_CHOICES_ROWS = 16,    /* at most; evenly among those recorded */
  KV_CHOICES_BINS = 64,    /* of the trace's tokens, in a map */
  KV_CHOICES_ADAPTERS = 3, /* ways to make scores of logits */
  KV_CHOICES_SHARES = 2
};

extern const char *const kv_choices_adapter[KV_CHOICES_ADAPTERS]; /* vanilla
                                       (attention itself) snapkv rkv */
extern const int kv_choices_percent[KV_CHOICES_SHARES];           /* 60 90 */

typedef struct kv_selected {
  int32_t before, after; /* tokens, at temperature 1 and at the one found */
  float temperature;     /* bisected; 1 where there is nothing to calibrate */
} kv_selected;

/* A row of a KV head: its logits are the largest of its query heads'. */
typedef struct kv_choices_row {
  float lse; /* log-sum-exp of these logits */
  kv_selected of[KV_CHOICES_ADAPTERS][KV_CHOICES_SHARES];
} kv_choices_row;

typedef struct kv_choices_head {
  kv_choices_row row[KV_CHOICES_ROWS];
} kv_choices_head;

/* Of a layer. */
typedef struct kv_choices {
  int32_t rows, token[KV_CHOICES_ROWS]; /* [rows] whose query a row is */
  /* How many KV heads select a token, after calibration, summed over the tokens
   * of a bin; token t is in bin t * BINS div the trace's. */
  int32_t map[KV_CHOICES_ROWS][KV_CHOICES_ADAPTERS][KV_CHOICES_SHARES]
             [KV_CHOICES_BINS];
  kv_choices_head head[]; /* [n_kv_heads] */
} kv_choices;

/* Bytes of a kv_choices for so many KV heads. */
static inline size_t kv_choices_size(int heads) {
  return sizeof(kv_choices) + (size_t)heads * sizeof(kv_choices_head);
}

/* Fills out, kv_choices_size bytes that the caller zeroed, of the i-th recorded
 * layer. KV_INPUT: the trace is bad; KV_RESOURCE: memory. Cost, a row and head:
 * its logits ten times, sorts and up to 240 rows of exponentials, and for
 * R-KV's adapter the cosines of all earlier keys four times. */
kv_rc kv_choices_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                       int threads, kv_choices *out, kv_err *e);

#endif
