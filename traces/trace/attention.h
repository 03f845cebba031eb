/* SPDX-License-Identifier: Apache-2.0
 *
 * What each recorded query head attends to, as means over its recorded rows of
 * attention (a row: one query's probabilities over the tokens it sees). Used by
 * `kvtrace info --attention`. The numbers do not depend on the number of
 * threads or the kernel set. Cost: the logits of all recorded rows.
 */
#ifndef KV_TRACES_ATTENTION_H
#define KV_TRACES_ATTENTION_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

enum {
  KV_ATTENTION_FROM = 64,  /* rows of earlier tokens do not count in `rows` */
  KV_ATTENTION_RECENT = 32 /* newest tokens, the row's own among them */
};

/* One query head. Means are 0 if there is no row. */
typedef struct kv_attention {
  long rows;      /* recorded rows from token KV_ATTENTION_FROM on; of these: */
  double entropy; /*   in nats */
  double first;   /*   probability of token 0 */
  double recent;  /*   of the KV_ATTENTION_RECENT newest tokens together */
  double tokens;  /*   fewest tokens with 95 % of the mass / tokens seen */
  long asked;     /* rows, of any token, that predict a token of an answer which
                     its needle also has; of these: */
  double needle;  /*   probability of the token that the answer repeats */
} kv_attention;

/* Computes the i-th recorded layer (from 0) into out[n_heads], on OpenMP's
 * default number of threads, or fewer (kv_threads). Memory, a thread: 32 rows
 * of logits and 16 bytes a token. KV_INPUT: as kv_trace_scan_layer, or a logit
 * is not finite. KV_RESOURCE: memory. out is undefined after a failure. */
kv_rc kv_attention_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                         kv_attention *out, kv_err *e);

/* Smallest `first` of a head that counts as having an attention sink. */
#define KV_ATTENTION_SINK 0.3

/* A head's kind, the first that applies; a static text:
 *   "retrieval"  needle >= 0.3
 *   "none"       no rows
 *   "sink"       first >= KV_ATTENTION_SINK
 *   "local"      recent >= 0.5
 *   "broad"      all others */
const char *kv_attention_word(const kv_attention *a);

#endif
