/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode steps computed ahead. A replay knows the queries of the steps to come,
 * and most entries of a lane stay what they are from one step to the next. So
 * the attention of a tile of steps over those is computed in one pass, in which
 * each row is read, or decoded from its codes, once; every step then goes on
 * from there with the entries that are new.
 *
 * Nothing is assumed that is not checked: the verbs record the first entry that
 * they touch (kv_lane.touched), and a step whose entries are not what they
 * were, or whose largest logit is another, is computed as if nothing had been.
 * Which entries stay is foreseen from the needs (no compression is due) or from
 * what the verbs left alone in the tile before; that decides how long a replay
 * takes, and no bit.
 */
#ifndef KV_REF_AHEAD_H
#define KV_REF_AHEAD_H

#include "ref/backend/attend.h"
#include "ref/backend/backend.h"

/* Of one lane. Row (r, h) of a tile, for query head h of the lane's, stands at
 * r * queries + h. */
typedef struct kv_ahead {
  int t, steps; /* rows of tokens t..t+steps-1 are there */
  int entries;  /* the first ones, in whole chunks, are weighed */
  bool known;   /* the layer has been in a tile before: reach means something */
  int reach;    /* how far from the end verbs have reached in it */
  float *first; /* [rows] largest logit of these entries */
  float *best;  /* [rows] of all that the row sees, as foreseen */
  float *l, *o; /* [rows], [rows][d_v] */
  float *s;     /* [rows][kv_ref_stride] logits of these entries; NULL: the
                   lane's rows are as recorded, and their logits known */
} kv_ahead;

/* Room for tiles of plan->tile steps in a lane of `queries` query heads. */
kv_rc kv_ahead_open(const kv_plan *plan, int queries, kv_ahead *out, kv_err *e);
void kv_ahead_close(kv_ahead *a); /* accepts a zeroed one */
/* Bytes of the logits of all lanes of such a plan, which are most of it. */
size_t kv_ahead_size(const kv_plan *plan, int tile);

/* True if row t of the lane, as it is now, can go on from what was weighed. */
bool kv_ahead_serves(const kv_ahead *a, const kv_lane *l, int t);

#endif
