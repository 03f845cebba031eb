/* SPDX-License-Identifier: Apache-2.0
 *
 * How unequal tokens are, by layer and KV head, as LeanKV's paper shows it: how
 * few tokens have most of a row's attention, and how scores of tokens spread
 * beside the norms of their values. For `kvreplay attention`. All figures are
 * whole numbers, so that threads and kernel sets cannot change one.
 *
 * A token's score is the mean of its probabilities over the recorded rows from
 * its own on (0 where a sliding window hides it), and over the query heads of a
 * KV head the largest of these means. Its norm is ||v||, summed in binary64 in
 * order of elements.
 */
#ifndef KV_TRACES_SPARSITY_H
#define KV_TRACES_SPARSITY_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

/* Scores and norms are counted by classes, three a power of ten: class c holds
 * 10^(c / 3) <= x < 10^((c + 1) / 3); the first also all that is smaller, the
 * last all that is larger. */
enum {
  KV_SPARSITY_SCORE = -36, /* first class of scores, 10^-12; the last is 0 */
  KV_SPARSITY_SCORES = 1 - KV_SPARSITY_SCORE, /* how many */
  KV_SPARSITY_NORM = -18, /* first class of norms, 10^-6; the last is 18 */
  KV_SPARSITY_NORMS = 1 - 2 * KV_SPARSITY_NORM, /* how many */
  KV_SPARSITY_FROM = 64, /* rows of earlier tokens are left out of `rows` */
  KV_SPARSITY_ROWS = 16  /* a token with fewer rows has no score */
};

/* Of one layer and KV head. A row here is one query head's at one recorded
 * token. */
typedef struct kv_sparsity {
  int64_t rows;     /* how many, from token KV_SPARSITY_FROM on; over these: */
  int64_t critical; /*   sum of the fewest tokens with 95 % of the mass */
  int64_t seen;     /*   sum of the tokens that a row sees */
  int64_t tokens;   /* that have a score: the sum of count */
  /* [a][b]: tokens with a score of class KV_SPARSITY_SCORE + a and a norm of
   * class KV_SPARSITY_NORM + b. */
  int32_t count[KV_SPARSITY_SCORES][KV_SPARSITY_NORMS];
} kv_sparsity;

/* Computes the i-th recorded layer (from 0) into out[n_kv_heads], on `threads`
 * threads. Cost: the logits of all recorded rows; memory, a thread: 32 rows of
 * logits, and 8 bytes a token and query head of a KV head. KV_INPUT: as
 * kv_trace_scan_layer, or a logit is not finite; KV_RESOURCE: memory; out means
 * nothing then. */
kv_rc kv_sparsity_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                        int threads, kv_sparsity *out, kv_err *e);

/* The class of x >= 0 among the classes `first` to `last`. */
int kv_sparsity_class(double x, int first, int last);

#endif
