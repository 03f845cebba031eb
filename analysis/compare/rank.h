/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a measure order methods as their answers do? Kendall's tau-b over all
 * pairs of methods of one group (a task at one budget, so with equal bytes),
 * all groups together: fill in a kv_ranks, then call kv_rank_find. Methods are
 * compared by their means over prompts, which are the sample for the intervals.
 * The same numbers give the same bits on every machine.
 *
 * Cost: resamples * measures * (values + pairs). `kvreport rank` of 60 prompts,
 * 74 methods and budgets, all measures and 2,000 resamples took 3.3 s of
 * processor time, reading included (a virtual core of an AMD EPYC, loaded).
 */
#ifndef KV_ANALYSIS_RANK_H
#define KV_ANALYSIS_RANK_H

#include <stdbool.h>

/* A group: cells that are compared with each other. A place is a task, whose
 * items are drawn together for all budgets. A group has some of these. */
typedef struct kv_rank_group {
  int first, end; /* its cells: first .. end - 1 */
  int place;
} kv_rank_group;

/* What is ranked, for one model. A cell is a method in a group. */
typedef struct kv_ranks {
  int cells, groups, places, methods;
  int measures;         /* `answers` measures of answers, then open-loop ones */
  int answers;          /* at least 1 */
  int width;            /* most items of a place */
  int *method;          /* [cells] 0 .. methods - 1 */
  kv_rank_group *group; /* [groups] in the order of their places */
  int *items;           /* [places] */
  bool *counts;  /* [groups][width] the group has that item of its place */
  double *value; /* [measures][cells][width] more is better; NaN: none. A cell
                    has a measure if each item of its group has a value */
} kv_ranks;

/* One measure against one of the answers. If both order no pair of methods,
 * everything but these counts is NaN or -1. */
typedef struct kv_rank {
  int pairs;          /* of methods of one group that have both */
  int groups, items;  /* groups with such pairs; all items of their places */
  int methods;        /* in the largest of these groups */
  double tau;         /* (pairs in the same order - in the opposite one) /
                         sqrt(pairs not tied in one * not tied in the other) */
  double low, high;   /* 95 %: tau +- 1.96 standard deviations over bootstrap
                         resamples of the items of each place; NaN, like
                         gap_low: fewer than KV_INTERVAL_LEAST items */
  double least, most; /* extremes of tau without one method */
  int least_without, most_without; /* that method; the first of several */
  double best_tau; /* of the best measure, on this measure's pairs */
  double gap, gap_low, gap_high; /* best_tau - tau, and its 95 % interval by the
                                    same draws */
} kv_rank;

/* Fills in out[x->answers][x->measures] and best[x->answers]: among the
 * open-loop measures with the most pairs, the one with the largest tau, the
 * first of several; -1: none has one. resamples >= 2; a resample without any
 * order counts as tau 0. Percentiles of the resamples would be too low:
 * resamples have fewer different items, so more noise. False: no memory. */
bool kv_rank_find(const kv_ranks *x, int resamples, kv_rank *out, int *best);

/* wrong[methods][methods]: number of groups in which the measure prefers the
 * first method to the second and the answers the second to the first. both:
 * number of groups in which both compare them. False: no memory. */
bool kv_rank_wrong(const kv_ranks *x, int measure, int answer, int *wrong,
                   int *both);

void kv_ranks_free(kv_ranks *x); /* accepts zeroed */

#endif
