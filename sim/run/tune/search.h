/* SPDX-License-Identifier: Apache-2.0
 *
 * The search of `kvreplay tune`, over integers alone: a coarse grid, then a
 * pattern around the best points whose step halves (sim/run/README.md). It
 * proposes points in rounds. The order and size of a round follow only from the
 * scores of earlier rounds. The caller replays the points and writes their
 * scores.
 *
 *   kv_tune_search_open(axes, sizes, most, &s, e);
 *   while (kv_tune_search_next(&s, &first))
 *     for (i = first; i < s.n; i++) s.point[i].score = ..;
 *
 * After open nothing fails or allocates. It promises no global optimum: only
 * that no neighbour is better than the best.
 */
#ifndef KV_SIM_TUNE_SEARCH_H
#define KV_SIM_TUNE_SEARCH_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { KV_TUNE_AXES = 8, KV_TUNE_MOST = 4096 }; /* most axes, and points */

/* The score of a point. A point with numbers is better than one without; then
 * the smaller is better, in the order of the fields. */
typedef struct kv_tune_score {
  bool ran;     /* there are numbers; else nothing below counts */
  double far;   /* distance from the bounds; 0: it meets them */
  double value; /* to be minimised */
  double ease;  /* among equals: distance within the bounds, below 0 if within
                 */
} kv_tune_score;

typedef struct kv_tune_point {
  int at[KV_TUNE_AXES]; /* [axes] its number on each axis, from 0 */
  kv_tune_score score;  /* written by the caller */
} kv_tune_point;

/* Why the search has ended. */
typedef enum kv_tune_end {
  KV_TUNE_SEARCHES,  /* it has not ended */
  KV_TUNE_NO_BETTER, /* no neighbour of the best is better */
  KV_TUNE_SPENT,     /* as many points were proposed as allowed */
  KV_TUNE_BLIND      /* no point of the first round has numbers */
} kv_tune_end;

typedef struct kv_tune_search {
  int axes, size[KV_TUNE_AXES]; /* an axis has the numbers 0 .. size - 1 */
  int step[KV_TUNE_AXES]; /* current distance of the pattern's neighbours */
  int most, n, rounds;    /* most points; points proposed; calls of next */
  int best;               /* number of the best point with a score; -1: none */
  kv_tune_end end;
  kv_tune_point *point; /* [n], capacity `most` */
} kv_tune_search;

/* Begins a search. axes: 0 .. KV_TUNE_AXES; size: [axes], each at least 1;
 * most: 1 .. KV_TUNE_MOST. KV_RESOURCE: no memory. Free it with
 * kv_tune_search_free. */
kv_rc kv_tune_search_open(int axes, const int *size, int most,
                          kv_tune_search *out, kv_err *e);
void kv_tune_search_free(kv_tune_search *s); /* accepts zeroed */
/* Proposes the points *first .. s->n - 1, none of which was proposed before;
 * the scores of all earlier points must be set. False: the search has ended,
 * for the reason s->end, and s->best is its answer. */
bool kv_tune_search_next(kv_tune_search *s, int *first);

/* Below 0 if a is better than b, 0 if they are equally good. */
int kv_tune_score_compare(const kv_tune_score *a, const kv_tune_score *b);
/* The same; among equally good points, the one with the smaller numbers is
 * better, the first axis first. 0: the same point. */
int kv_tune_point_compare(const kv_tune_search *s, const kv_tune_point *a,
                          const kv_tune_point *b);

#endif
