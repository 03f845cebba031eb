/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode steps, and rows of a prompt that is read in chunks, computed ahead. A
 * replay knows the queries of the steps to come, and most entries of a lane
 * stay what they are from one step to the next. So the attention of a tile of
 * steps over those is computed in one pass, in which each row is read, or
 * decoded from its codes, once; every step then goes on from there with the
 * entries that are new.
 *
 * Nothing is assumed that is not checked: the verbs record the first entry that
 * they touch (kv_lane.touched), and a step whose entries are not what they
 * were, or whose largest logit is another, is computed as if nothing had been.
 * Which entries stay is foreseen from the needs (no compression is due) or from
 * what the verbs left alone in the tile before; that decides how long a replay
 * takes, and no bit. Private to the reference backend: kv_ref_ahead of
 * ref/backend/store.h fills a kv_ahead in before the tile's first step, and the
 * steps of the tile ask kv_ahead_serves. sim/replay/engine asks for
 * kv_ahead_size when it divides memory.
 */
#ifndef KV_REF_AHEAD_H
#define KV_REF_AHEAD_H

#include "ref/backend/attend.h"
#include "ref/backend/backend.h"

/* A tile of one lane. Its rows are one for each step r and query head h of the
 * lane, at index r * queries + h. */
typedef struct kv_ahead {
  int t,
      steps;   /* the steps of tokens t..t+steps-1; 0 steps: nothing is there */
  int entries; /* how many of the lane's first were weighed, in whole chunks */
  bool known;  /* `reach` was observed in the tile before */
  int reach;   /* entries at the end of the lane that verbs changed in it */
  float *first; /* [rows] largest logit of the entries weighed */
  float *best;  /* [rows] of all that the row will see, as foreseen */
  float *l, *o; /* [rows], [rows][d_v]: the chains L and O (arithmetic 3) */
  float *s;     /* [rows][kv_ref_stride] logits of the entries; NULL: the
                   method codes no rows, and the logits are lent at each step */
} kv_ahead;

/* Takes room for tiles of plan->tile steps in a lane of `queries` query heads.
 * KV_RESOURCE without memory; close it then, too. */
kv_rc kv_ahead_open(const kv_plan *plan, int queries, kv_ahead *out, kv_err *e);
void kv_ahead_close(kv_ahead *a); /* accepts a zeroed one */
/* Bytes that the logits `s` of all lanes take with tiles of `tile` steps; 0
 * where there are none. They are most of what a kv_ahead takes. */
size_t kv_ahead_size(const kv_plan *plan, int tile);

/* True if the step of token t can go on from what was weighed: it is in the
 * tile, and no verb has since touched one of these entries of the lane. */
bool kv_ahead_serves(const kv_ahead *a, const kv_lane *l, int t);

#endif
