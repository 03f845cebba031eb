/* SPDX-License-Identifier: Apache-2.0
 *
 * How unequal tokens are, by layer and KV head, as LeanKV's paper looks at it:
 * how many of them a row of attention cannot do without, and how far the
 * scores of tokens spread beside the norms of their values.
 *
 * A token's score is the mean of its probabilities over the recorded rows that
 * see it, its own row among them, and over the query heads of a group the
 * largest of these means. Its norm is the square root of the sum of squares of
 * its value's elements, added in double in their order. Everything that is
 * kept is a whole number, so that threads and kernel sets cannot change one.
 */
#ifndef KV_TRACES_SPARSITY_H
#define KV_TRACES_SPARSITY_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

/* Scores and norms are counted in classes, three a power of ten: class c holds
 * what is at least 10^(c / 3) and less than 10^((c + 1) / 3); the first one
 * also all that is less, and the last one all that is more. SCORES and NORMS
 * are how many classes there are. */
enum {
  KV_SPARSITY_SCORE =
      -36, /* first class of scores: 10^-12; the last one is 0 */
  KV_SPARSITY_SCORES = 1 - KV_SPARSITY_SCORE,
  KV_SPARSITY_NORM = -18, /* first class of norms: 10^-6; the last is 18 */
  KV_SPARSITY_NORMS = 1 - 2 * KV_SPARSITY_NORM,
  KV_SPARSITY_FROM = 64, /* rows of earlier tokens are left out of `rows` */
  KV_SPARSITY_ROWS = 16  /* a token that fewer rows see has no score */
};

/* What is found of one layer and KV head. A row here is one query head's at one
 * recorded token; count[a][b] are the tokens whose score is of class
 * KV_SPARSITY_SCORE + a and whose norm is of class KV_SPARSITY_NORM + b. */
typedef struct kv_sparsity {
  int64_t rows;     /* how many, from token KV_SPARSITY_FROM on */
  int64_t critical; /* fewest tokens with 95 % of the mass, summed over rows */
  int64_t seen;     /* tokens that a row sees, summed over rows */
  int64_t tokens;   /* that have a score: the sum of count */
  int32_t count[KV_SPARSITY_SCORES][KV_SPARSITY_NORMS]; /* by class, from the
                                                       first classes on */
} kv_sparsity;

/* Looks at the i-th recorded layer, from 0, and fills out[n_kv_heads], on
 * `threads` threads. Cost: the logits of all recorded rows; memory, a thread:
 * 32 rows of logits, and 8 bytes a token and query head of a group. KV_INPUT
 * where a number, or a logit, is not finite, or the file has changed;
 * KV_RESOURCE: memory. */
kv_rc kv_sparsity_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                        int threads, kv_sparsity *out, kv_err *e);

/* The class of x >= 0 among the classes `first` to `last`. */
int kv_sparsity_class(double x, int first, int last);

#endif
