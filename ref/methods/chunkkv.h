/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of chunkkv as its open (ref/methods/chunkkv.c) has resolved
 * them, for it and its CUDA twin, and how many chunks stay. Defaults and
 * sources stand in its table of parameters; an enum has the values of the
 * parameter named beside it.
 */
#ifndef KV_REF_METHODS_CHUNKKV_H
#define KV_REF_METHODS_CHUNKKV_H

#include "ref/parts/scorers.h"

enum { BY_BUDGET, BY_SHARE }; /* count */

typedef struct params {
  int budget;         /* entries that stay at most, BY_SHARE a chunk more */
  int chunk;          /* entries of a chunk, which stay or go together */
  int count;          /* of the enum above */
  kv_score_options s; /* the scorer and its options */
  float threshold;    /* chunks whose score is less go; NaN: none do */
} params;

/* Entries of a chunk, how many chunks there are, and how many stay. */
typedef struct chunks {
  int length, number, kept;
} chunks;

/* The chunks of n >= 1 candidates, of which the budget leaves room for `room`;
 * where that is 0 or less none is kept, where all fit all are. */
KV_FN chunks chunks_of(const params *o, int n, int room) {
  chunks c = {o->chunk, 0, 0};
  if (o->count == BY_BUDGET && c.length > room) c.length = room > 0 ? room : 1;
  c.number = (n - 1) / c.length + 1;
  if (room >= n) c.kept = c.number;
  if (room <= 0 || room >= n) return c;
  c.kept = o->count == BY_BUDGET ? room / c.length
                                 : (int)((int64_t)c.number * room / n);
  if (c.kept < 1) c.kept = 1;
  return c;
}

#endif
