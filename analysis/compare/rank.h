/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a measure put methods in the order that their answers have? Kendall's
 * tau-b over all pairs of methods of one group (a task at one budget, where
 * bytes are equal), all groups together: fill a kv_ranks, then kv_rank_find.
 * Methods are compared by their means over prompts; prompts are the sample, of
 * which the intervals are. Same numbers in, same bits out, on every machine.
 *
 * Cost: resamples * measures * (values + pairs). `kvreport rank` of 60 prompts,
 * 74 methods and budgets, all measures and 2,000 resamples took 3.3 s of
 * processor time, reading included (a virtual core of an AMD EPYC, loaded).
 */
#ifndef KV_ANALYSIS_RANK_H
#define KV_ANALYSIS_RANK_H

#include <stdbool.h>

/* Cells that are compared with each other: a group. Its items are a part of
 * those of its place: a task, whose items are drawn together, for all
 * budgets. */
typedef struct kv_rank_group {
  int first, end; /* its cells: first .. end - 1 */
  int place;
} kv_rank_group;

/* What is ranked, of one model. A cell is a method in a group. */
typedef struct kv_ranks {
  int cells, groups, places, methods;
  int measures;         /* `answers` of answers first, then open-loop ones */
  int answers;          /* at least 1 */
  int width;            /* the most items that a place has */
  int *method;          /* [cells] 0 .. methods - 1 */
  kv_rank_group *group; /* [groups] in the order of their places */
  int *items;           /* [places] */
  bool *counts;  /* [groups][width] the group has that item of its place */
  double *value; /* [measures][cells][width] more is better; NaN: none. Of a
                    cell a measure counts where each item of its group has a
                    value */
} kv_ranks;

/* Of one measure with one of the answers. Where no pair of methods is in some
 * order by both, all but these counts is NaN and -1. */
typedef struct kv_rank {
  int pairs;          /* of methods of one group that have both */
  int groups, items;  /* that these are of, with all items of their places */
  int methods;        /* in the largest of these groups */
  double tau;         /* (pairs in the same order - in the opposite one) /
                         sqrt(pairs not tied in one * not tied in the other) */
  double low, high;   /* 95 %: tau and 1.96 standard deviations of that of
                         bootstrap resamples of the items of each place; NaN,
                         like gap_low: fewer than KV_INTERVAL_LEAST items */
  double least, most; /* of tau where one method is left out, .. */
  int least_without, most_without; /* .. which: the first of several */
  double best_tau; /* of the best measure, on the pairs that this one has */
  double gap, gap_low, gap_high; /* best_tau - tau, and its 95 % interval by the
                                    same draws */
} kv_rank;

/* Fills out[x->answers][x->measures] and best[x->answers]: of the open-loop
 * measures that have the most pairs the one with the largest tau, the first of
 * several; -1: none has one. resamples >= 2; a resample without any order
 * counts as tau 0. Percentiles of the resamples would be too low: they have
 * fewer different items, so more noise and less order. False: no memory. */
bool kv_rank_find(const kv_ranks *x, int resamples, kv_rank *out, int *best);

/* wrong[methods][methods]: the groups in which the measure prefers the first
 * method to the second and the answers the second to the first; both: the
 * groups in which they are compared by both. False: no memory. */
bool kv_rank_wrong(const kv_ranks *x, int measure, int answer, int *wrong,
                   int *both);

void kv_ranks_free(kv_ranks *x); /* accepts zeroed */

#endif
