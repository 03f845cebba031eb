/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference backend (backend.c, decode.c, observation.c,
 * scratch.c): one method on one layer in flight, and the scratch of one
 * thread.
 */
#ifndef KV_REF_STORE_H
#define KV_REF_STORE_H

#include "ref/backend/ahead.h"
#include "ref/backend/attend.h"
#include "ref/backend/backend.h"
#include "ref/backend/leaves.h"
#include "ref/ground/places.h"

struct kv_store {
  const kv_plan *opened; /* for all layers */
  const kv_plan *plan;   /* of the layer in flight */
  kv_shape shape; /* the plan's, with the prompt_len of the last prompt */
  const kv_layer_data *data;
  const kv_tensor *asset; /* of that layer */
  int lanes;
  kv_lane *lane;    /* [lanes] */
  kv_ahead *ahead;  /* [lanes]; NULL: steps come one by one */
  float *out;       /* [n_heads][d_v + 1]: output, then LSE, of the step */
  kv_digest *state; /* [lanes] of the compression that is due */
  kv_leaves leaves;
  const kv_message *above; /* of the block or step in hand; NULL: none */
  kv_message said;         /* what the layer publishes at it */
  char *message;           /* its bytes; NULL where needs.across is KV_ALONE */
  bool published;
  kv_turns turns;    /* where needs.rope */
  kv_places *places; /* where needs.reindex; else NULL */
  kv_shows shows;
};

enum { KV_TILE_ROWS = 32 }; /* most prompt rows at once */

struct kv_scratch {
  int heads;             /* query heads of a KV head */
  size_t stride;         /* kv_ref_stride */
  int tile_rows;         /* prompt rows at once */
  float *q;              /* [tile_rows][heads][d] */
  float *s;              /* [tile_rows][heads][stride] */
  float *p;              /* the same: probabilities */
  int64_t *sum;          /* [heads][stride] */
  float *g;              /* [heads][stride] logits in view order */
  float *ahead_s;        /* [tile][heads][stride] logits of steps ahead; NULL
                            where no plan has a tile */
  kv_view *view;         /* [heads] */
  float *out, *lse;      /* [heads][d_v], [heads] */
  bool all;              /* s holds every entry of the lane */
  bool together;         /* all heads of the lane see everything */
  bool as_known;         /* which is what `known` was computed of */
  const kv_known *known; /* from view to attend */
  kv_chunk *more; /* [heads] chunks of the method's own; NULL where no method
                     has them */
  float *more_a;  /* [heads][d_v] */
  bool *seen;     /* [n_tokens] entries in any view; NULL where no method
                     codes rows */
  kv_materialised materialised; /* room for their rows; the same */
  kv_attend_scratch attend;
  kv_work work;
  kv_lane_room room; /* lent to the lane in hand */
};

/* Floats a row of logits: one line more than the tokens, for rows a power of
 * two apart would fight for the same places of the cache. */
static inline size_t kv_ref_stride(const kv_shape *s) {
  return ((size_t)s->n_tokens + 15) / 16 * 16 + 16;
}

/* For a hook at `step` tokens seen; empties the workspace. */
kv_at kv_store_at(const kv_store *s, int step, kv_scratch *x);

/* After a hook: a floating-point mode that it left is undone before anything
 * else is computed with it, and a fault of the lane. */
void kv_store_left(const kv_store *s, kv_lane *l, const char *hook);

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
void kv_ref_view(kv_store *s, int lane, int t, const kv_known *known,
                 kv_scratch *x);
void kv_ref_materialise(kv_store *s, int lane, kv_scratch *x);
void kv_ref_attend(kv_store *s, int lane, kv_scratch *x);
kv_seen kv_ref_seen(const kv_store *s, int lane, const kv_scratch *x);
void kv_ref_observe(kv_store *s, kv_lane *l, kv_scratch *x);
/* ahead.c */
void kv_ref_ahead(kv_store *s, int lane, int t, int steps,
                  const kv_known *known, kv_scratch *x);
/* observation.c */
void kv_ref_observation(kv_store *const *s, int n, int g, int first, int count,
                        kv_scratch *x);

#endif
