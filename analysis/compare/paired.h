/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of paired differences: the same trace under two methods is a pair
 * whose values differ by d. The traces are the sample; no distribution of d is
 * assumed. The same numbers give the same bits on every machine: sums have a
 * fixed order, and random draws come from an integer generator with a fixed
 * seed.
 *
 * Cost of kv_paired_find: 20,000 n additions, a second for 10,000 pairs.
 */
#ifndef KV_ANALYSIS_PAIRED_H
#define KV_ANALYSIS_PAIRED_H

#include <stdbool.h>

enum {
  KV_RESAMPLES = 10000, /* bootstrap resamples, and random flips */
  KV_FLIPS_EXACT = 16,  /* up to this many pairs all 2^n flips are tried */
  KV_PAIRS_LEAST = 8    /* fewer pairs give no verdict; fewer than
                           KV_INTERVAL_LEAST give no interval either */
};

typedef struct kv_paired {
  int n;                  /* pairs */
  int above, below, ties; /* pairs with d > 0, d < 0, d = 0 */
  double mean;            /* of d */
  double low, high;       /* 95 % interval of the mean: percentiles 2.5 and
                             97.5 of KV_RESAMPLES means of n pairs drawn with
                             replacement (bootstrap); NaN: too few pairs */
  double p; /* two-sided, of the sign-flip test: the share of sign patterns
               whose mean is at least as far from 0; all 2^n of them up to
               KV_FLIPS_EXACT pairs, else KV_RESAMPLES random ones and the
               observed one */
  double p_least; /* the smallest p that n pairs can have in that test */
  double noise;   /* (s / mean)^2, s of these pairs; inf: mean is 0; NaN: fewer
                     than two pairs */
} kv_paired;

/* Fills in *out from d[n], n >= 1, without NaN. False: no memory. */
bool kv_paired_find(int n, const double *d, kv_paired *out);

/* Pairs needed for 80 % power in one of m tests: ((z + 0.84) s / mean)^2. A
 * normal number exceeds z, either way, with probability .05 / m, which always
 * passes Holm's correction. inf and NaN as noise. */
double kv_paired_needed(const kv_paired *x, int m);

/* Holm's correction for m tests at once: holm[i] is the smallest level at which
 * test i is still significant, if that level bounds the probability of any
 * false verdict in all m. False: no memory. */
bool kv_paired_holm(int m, const double *p, double *holm);

#endif
