/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of chunkkv, shared with its CUDA twin (ref/lane/params.h), and
 * how many chunks stay.
 */
#ifndef KV_REF_METHODS_CHUNKKV_H
#define KV_REF_METHODS_CHUNKKV_H

#include "ref/lane/params.h"
#include "ref/parts/scorers.h"

enum { BY_BUDGET, BY_SHARE }; /* count */

#define PARAMS(P)                                                              \
  P(BUDGET, "most tokens left after a compression; must be given")             \
  P(INT, chunk, "10", 1, 1 << 22, "tokens",                                    \
    "tokens that stay or go together; 10 as in the paper, 20 in kvpress")      \
  P(CHOICE, count, "budget", "budget|share",                                   \
    "how many chunks stay: as many as fit the budget, as in the paper, or "    \
    "its share of all chunks, as in kvpress")                                  \
  P(PART, kv_score_options s,                                                  \
    KV_SCORE_PARAMS(params, s, "snapkv", .later = false))                      \
  P(PART, float threshold, KV_THRESHOLD_PARAM(params, threshold))              \
  P(ROW, KV_WINDOW_PARAMS(params, s.w, 0))                                     \
  P(ROW, KV_SINKS_PARAM(params, s))                                            \
  P(ROW, KV_FORM_PARAMS(params, s))
KV_PARAMS(PARAMS);

/* Entries of a chunk, how many chunks there are, and how many stay. */
typedef struct chunks {
  int length, number, kept;
} chunks;

/* The chunks of n >= 1 candidates. The budget has `room` for so many of them:
 * if 0 or less no chunk is kept, if n or more all are. */
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
