/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of chunkkv: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/chunkkv.c), and how many chunks stay.
 */
#ifndef KV_REF_METHODS_CHUNKKV_H
#define KV_REF_METHODS_CHUNKKV_H

#include "ref/parts/scorers.h"

enum { BY_BUDGET, BY_SHARE }; /* count */

typedef struct params {
  int budget, chunk, count;
  kv_score_options s;
} params;

/* Of n candidates of which the budget leaves `room`: entries of a chunk, how
 * many chunks there are, and how many stay. */
typedef struct chunks {
  int length, number, kept;
} chunks;

KV_FN chunks chunks_of(const params *o, int n, int room) {
  chunks c = {o->chunk, 0, 0};
  if (o->count == BY_BUDGET && c.length > room) c.length = room > 0 ? room : 1;
  c.number = (n - 1) / c.length + 1;
  if (room <= 0) return c;
  c.kept = o->count == BY_BUDGET ? room / c.length
                                 : (int)((int64_t)c.number * room / n);
  if (c.kept < 1) c.kept = 1;
  return c;
}

#endif
