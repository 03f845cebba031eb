/* SPDX-License-Identifier: Apache-2.0
 *
 * The search of `kvreplay tune`, over whole numbers alone: a coarse grid, then
 * a pattern around the best points whose step halves (sim/run/README.md).
 * It asks for points in rounds, whose order and size follow from the scores of
 * the rounds before and nothing else; who asks for it replays them and writes
 * their scores.
 *
 *   kv_tune_search_open(axes, sizes, most, &s, e);
 *   while (kv_tune_search_next(&s, &first))
 *     for (i = first; i < s.n; i++) s.point[i].score = ..;
 *
 * After open nothing fails and nothing allocates. It finds no global optimum by
 * promise: only where no neighbour is better than the best.
 */
#ifndef KV_SIM_TUNE_SEARCH_H
#define KV_SIM_TUNE_SEARCH_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { KV_TUNE_AXES = 8, KV_TUNE_MOST = 4096 }; /* axes, and points, at most */

/* What a point is worth. One with numbers is better than one without; then the
 * smaller is better, in the order of the fields. */
typedef struct kv_tune_score {
  bool ran;     /* there are numbers; else nothing below counts */
  double far;   /* how far it is from what is asked; 0: it meets it */
  double value; /* what is to be least */
  double ease;  /* among equals: how far within the bounds, below 0 within */
} kv_tune_score;

typedef struct kv_tune_point {
  int at[KV_TUNE_AXES]; /* [axes] its number on each axis, from 0 */
  kv_tune_score score;  /* written by who asked for it */
} kv_tune_point;

/* Why the search has ended. */
typedef enum kv_tune_end {
  KV_TUNE_SEARCHES,  /* it has not */
  KV_TUNE_NO_BETTER, /* no neighbour of the best is better */
  KV_TUNE_SPENT,     /* as many points were asked for as there may be */
  KV_TUNE_BLIND      /* no point of the first round has numbers */
} kv_tune_end;

typedef struct kv_tune_search {
  int axes, size[KV_TUNE_AXES]; /* an axis has the numbers 0 .. size - 1 */
  int step[KV_TUNE_AXES]; /* how far the neighbours of the pattern are now */
  int most, n, rounds;    /* points at most; points asked for; calls of next */
  int best;               /* number of the best point with a score; -1: none */
  kv_tune_end end;
  kv_tune_point *point; /* [n] of room for `most` */
} kv_tune_search;

/* Begins a search. axes: 0 .. KV_TUNE_AXES; size: [axes], each at least 1;
 * most: 1 .. KV_TUNE_MOST. KV_RESOURCE: no memory. Free it with
 * kv_tune_search_free. */
kv_rc kv_tune_search_open(int axes, const int *size, int most,
                          kv_tune_search *out, kv_err *e);
void kv_tune_search_free(kv_tune_search *s); /* accepts zeroed */
/* Asks for the points *first .. s->n - 1, none of which was asked for before;
 * the scores of all before are written. False: the search has ended, for the
 * reason s->end, and s->best is its answer. */
bool kv_tune_search_next(kv_tune_search *s, int *first);

/* Below 0 if a is better than b, 0 if they are worth the same. */
int kv_tune_score_compare(const kv_tune_score *a, const kv_tune_score *b);
/* The same; of points that are worth the same the one with the smaller numbers,
 * the first axis first. 0: the same point. */
int kv_tune_point_compare(const kv_tune_search *s, const kv_tune_point *a,
                          const kv_tune_point *b);

#endif
