/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference backend (backend.c, decode.c, evidence.c,
 * scratch.c): one method on one layer in flight, and the scratch of one
 * thread.
 */
#ifndef KV_REF_STORE_H
#define KV_REF_STORE_H

#include "ref/attend.h"
#include "ref/backend.h"
#include "ref/leaves.h"

struct kv_store {
  const kv_plan *plan;
  const kv_layer_data *data;
  int lanes;
  kv_lane *lane;    /* [lanes] */
  float *out;       /* [n_heads][d_v + 1]: output, then LSE, of the step */
  kv_digest *state; /* [lanes] of the settling that is due */
  kv_leaves leaves;
};

struct kv_scratch {
  int heads;        /* query heads of a KV head */
  size_t stride;    /* floats a row: n_tokens, rounded up to 16 */
  int tile_rows;    /* prompt rows at once */
  float *q;         /* [tile_rows][heads][d] */
  float *s;         /* [tile_rows][heads][stride] */
  float *p;         /* the same: probabilities */
  int64_t *sum;     /* [heads][stride] */
  float *g;         /* [heads][stride] logits in view order */
  kv_view *view;    /* [heads] */
  float *out, *lse; /* [heads][d_v], [heads] */
  bool all;         /* s holds every entry of the lane */
  kv_attend_scratch attend;
  kv_work work;
  kv_lane_room room; /* lent to the lane in hand */
};

/* For a hook at `step` tokens seen; empties the workspace. */
kv_at kv_store_at(const kv_store *s, int step, kv_scratch *x);

/* fp32 query of token t, head h; the row is recorded. */
void kv_store_query(const kv_store *s, int h, int t, float *out);

/* Hands rows to the observe hook of a lane. */
void kv_store_observe(kv_store *s, kv_lane *l, kv_rows rows, kv_scratch *x);

/* --- entries of kv_backend_ref ------------------------------------------ */

/* scratch.c */
kv_rc kv_ref_scratch_open(const kv_shape *shape, const kv_plan *const *plan,
                          int plans, kv_scratch **out, kv_err *e);
void kv_ref_scratch_close(kv_scratch *x);
/* decode.c */
void kv_ref_attend(kv_store *s, int lane, int t, const kv_known *known,
                   kv_scratch *x);
kv_seen kv_ref_seen(const kv_store *s, int lane, const kv_scratch *x);
void kv_ref_observe(kv_store *s, kv_lane *l, kv_scratch *x);
/* evidence.c */
void kv_ref_evidence(kv_store *const *s, int n, int g, int first, int count,
                     kv_scratch *x);

#endif
