/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes decode steps, and rows of a prompt that is read in chunks, ahead. In
 * a replay the queries of later steps are known, and most entries of a lane do
 * not change from one step to the next. So the attention of a tile of steps
 * over these entries is computed in one pass that reads, or decodes, each row
 * once. Every step then continues from there with the new entries.
 *
 * Predictions affect only the speed. Which entries stay is predicted from the
 * needs (no compression is due) or from what the verbs left alone in the
 * previous tile. The verbs record the first entry that they touch
 * (kv_lane.touched). A step whose entries have changed, or whose largest logit
 * differs from the prediction, is computed from scratch.
 *
 * Private to the reference backend: kv_ref_ahead of ref/backend/store.h fills
 * in a kv_ahead before the tile's first step, and the tile's steps call
 * kv_ahead_serves. sim/replay/engine calls kv_ahead_size when it divides
 * memory.
 */
#ifndef KV_REF_AHEAD_H
#define KV_REF_AHEAD_H

#include "ref/backend/attend.h"
#include "ref/backend/backend.h"

/* A tile of one lane. There is one row for each step r and query head h of the
 * lane, at index r * queries + h. */
typedef struct kv_ahead {
  int t, steps; /* the steps of tokens t..t+steps-1; 0 steps: empty */
  int entries;  /* how many of the lane's first entries were weighed, in whole
                   chunks */
  bool known;   /* `reach` was observed in the previous tile */
  int reach;    /* entries at the end of the lane that verbs changed in it */
  float *first; /* [rows] largest logit of the weighed entries */
  float *best;  /* [rows] predicted largest logit of all that the row sees */
  float *l, *o; /* [rows], [rows][d_v]: the chains L and O (arithmetic 3) */
  float *s;     /* [rows][kv_ref_stride] logits of the entries; NULL: the method
                   codes no rows, and the caller passes each step's logits */
} kv_ahead;

/* Allocates for tiles of plan->tile steps in a lane of `queries` query heads.
 * KV_RESOURCE without memory; close it then, too. */
kv_rc kv_ahead_open(const kv_plan *plan, int queries, kv_ahead *out, kv_err *e);
void kv_ahead_close(kv_ahead *a); /* accepts a zeroed one */
/* Bytes of the logits `s` of all lanes with tiles of `tile` steps, which are
 * most of a kv_ahead; 0 if none are kept. */
size_t kv_ahead_size(const kv_plan *plan, int tile);

/* Can the step of token t continue from what was weighed? It must be in the
 * tile, and no verb may have touched one of these entries since. */
bool kv_ahead_serves(const kv_ahead *a, const kv_lane *l, int t);

#endif
