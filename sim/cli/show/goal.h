/* SPDX-License-Identifier: Apache-2.0
 *
 * The goal of a tuning: one measure that must be smallest or largest, and
 * bounds on others. A point is judged by its rows, one per trace: by the mean
 * of each measure over the traces, for lse_error the mean absolute value. A row
 * that did not run, or that lacks a needed number, leaves its point without a
 * score.
 */
#ifndef KV_SIM_TUNE_GOAL_H
#define KV_SIM_TUNE_GOAL_H

#include "sim/cli/show/key.h"
#include "sim/run/tune/search.h"

enum { KV_TUNE_MEASURES = 9 }; /* most measures: the goal and its bounds */

typedef struct kv_tune_measure {
  char key[KV_TUNE_KEY]; /* of a row, as kv_tune_key_find gives it */
  int sign;              /* 1: less is better; -1: more is better */
  double bound; /* at most (sign 1), or at least; unused by the first */
} kv_tune_measure;

/* Zeroed: no goal yet. */
typedef struct kv_tune_goal {
  int n;
  kv_tune_measure measure[KV_TUNE_MEASURES]; /* [n]; the first is optimised */
} kv_tune_goal;

/* The result of the rows of one point. */
typedef struct kv_tune_judgement {
  kv_tune_score score;           /* ran is false: a row lacks a number */
  double mean[KV_TUNE_MEASURES]; /* [n] over the rows, if score.ran */
  int lacks;   /* the first row that lacks a number; -1: none */
  int measure; /* the measure that it lacks; -1: the row did not run */
} kv_tune_judgement;

/* Sets the measure to minimise (sign 1) or maximise (-1), by any of its names.
 * Call it first. KV_USAGE: no such measure. KV_RESOURCE: memory. */
kv_rc kv_tune_goal_best(kv_tune_goal *g, const char *name, int sign, kv_err *e);
/* Adds the bound `text`, MEASURE=NUMBER: at most (sign 1) or at least (-1).
 * option: its name in messages, "--at-most". KV_USAGE: it is malformed, or
 * there are too many bounds. KV_RESOURCE: memory. */
kv_rc kv_tune_goal_bound(kv_tune_goal *g, const char *option, const char *text,
                         int sign, kv_err *e);

/* Judges a point by its rows, one per trace, in the order of the traces. */
kv_tune_judgement kv_tune_judge(const kv_tune_goal *g, int rows,
                                const kv_result *row);

/* The points of the search that no other beats. A point beats another if it is
 * at least as good in every measure and better in one, or equal in all and
 * earlier by kv_tune_point_compare. judged: [s->n] of all points. Writes their
 * numbers to out[0 .. s->n), the best of the search first, then by the first
 * measure and by order; returns how many. */
int kv_tune_front(const kv_tune_goal *g, const kv_tune_search *s,
                  const kv_tune_judgement *judged, int *out);

#endif
