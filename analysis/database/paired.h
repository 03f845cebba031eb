/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of differences between two methods, for traces and evaluations. A
 * value is the difference on one trace or question, or one method's own value.
 * Values that depend on each other form a cluster: the questions about one
 * context. A trace is a cluster of one value. Clusters are the sample; no
 * distribution is assumed. Several tasks count equally: the mean is the mean of
 * the tasks' means over values. The same numbers give the same bits on every
 * machine: sums have a fixed order, and random draws come from an integer
 * generator with a fixed seed.
 *
 * Cost of kv_paired_find: 20,000 n additions, half a second for 10,000
 * clusters.
 */
#ifndef KV_ANALYSIS_PAIRED_H
#define KV_ANALYSIS_PAIRED_H

#include <stdbool.h>

enum {
  KV_RESAMPLES = 10000, /* bootstrap resamples, and random flips */
  KV_FLIPS_EXACT = 16,  /* up to this many clusters all 2^n flips are tried */
  KV_PAIRS_LEAST = 8    /* fewer clusters give no verdict; fewer than
                           KV_INTERVAL_LEAST give no interval either */
};
#define KV_LEVEL 0.05  /* of verdicts, after Holm's correction */
#define KV_MARGIN 0.05 /* of right answers, unless asked for otherwise */

typedef struct kv_cluster {
  int task;         /* any number; a task's clusters follow each other */
  int n;            /* values, 1 or more */
  int above, below; /* how many of them are > 0, < 0 */
  double sum;       /* of the values */
} kv_cluster;

typedef struct kv_paired {
  int n, tasks;                   /* clusters, in how many tasks */
  int values, above, below, ties; /* values; how many are > 0, < 0, 0 */
  double mean;
  double low, high; /* 95 % interval of the mean: percentiles 2.5 and 97.5 of
                       KV_RESAMPLES means (bootstrap). Of a task's k clusters
                       k - 1 are drawn with replacement, which makes the
                       variance unbiased. NaN: too few clusters, or one alone in
                       its task */
  double p; /* two-sided, of the sign-flip test: the share of sign patterns
               whose mean is at least as far from 0, the signs of a cluster
               being flipped together; all 2^n of them up to KV_FLIPS_EXACT
               clusters, else KV_RESAMPLES random ones and the observed one */
  double p_least; /* the smallest p that n clusters can have in that test */
  double equal;   /* how many clusters of equal weight the n are worth: one over
                     the sum of their squared weights */
  double spread;  /* variance of the mean, times `equal`: that of one cluster's
                     mean. NaN: a task has one cluster only */
  double square;  /* mean square of a cluster's mean: of right answers, with a
                     question for each context, the share of questions that
                     exactly one of the two methods answers */
} kv_paired;

/* Fills in *out from c[n], n >= 1. False: no memory. Without p and p_least:
 * kv_paired_interval, at half the cost. */
bool kv_paired_find(int n, const kv_cluster *c, kv_paired *out);
bool kv_paired_interval(int n, const kv_cluster *c, kv_paired *out);
/* The same of right answers, whose values are 0 or 1: Wilson's interval where a
 * context has one question, or all values are alike, which tells a bootstrap
 * nothing. */
bool kv_paired_right(int n, const kv_cluster *c, kv_paired *out);
/* Wilson's 95 % interval of a share x of n, n > 0. */
void kv_wilson(double x, double n, double *low, double *high);

/* One-sided p of the hypothesis that the mean is -margin or less, for values
 * from -1 to 1. The larger of two: of Tango's score test, with the larger of
 * the variance that he expects under the hypothesis and the observed one; and
 * (1 - margin)^equal, the probability that no cluster loses if a share of
 * `margin` does (rule of three). So ties alone show it only from 59 clusters
 * on, if margin is .05. 1: spread is NaN. */
double kv_paired_margin(const kv_paired *x, double margin);
/* The smallest p of that test, by the rule of three. */
double kv_paired_margin_least(const kv_paired *x, double margin);

/* Clusters needed for 80 % power in one of m tests: ((z + 0.84) / mean)^2 times
 * spread. A normal number exceeds z, either way, with probability .05 / m,
 * which always passes Holm's correction. inf: mean is 0; NaN: so is spread. */
double kv_paired_needed(const kv_paired *x, int m);

/* The difference of right answers that n contexts can detect: that is found
 * with 80 % probability in one of m tests, if `square` is as in kv_paired (the
 * share of questions that exactly one method answers). The larger of two:
 *   k sqrt(square / (n + k^2)), where k = z + 0.8416212335729143, z as above;
 *   the least D of [0, 1] for which a binomial number of n trials, each with
 *   probability D, is at least j with probability .8. j is the fewest flips,
 *   all one way, that sign flips call significant: the least with
 *   2 / 2^j < .05 / m. Infinite if n < j.
 * It does not exceed 1 otherwise. `kvreplay evaluate --plan` prints the same.
 */
double kv_paired_detectable(int n, int m, double square);

/* Holm's correction for m tests at once: replaces each p, *p[i], by the
 * smallest level at which its test is still significant, if that level bounds
 * the probability of any false verdict in all m. Reorders p. */
void kv_paired_holm(int m, double **p);

#endif
