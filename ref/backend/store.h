/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference backend (ref/backend) and tests: one method on one
 * layer in flight, and the scratch of one thread.
 */
#ifndef KV_REF_STORE_H
#define KV_REF_STORE_H

#include "ref/backend/ahead.h"
#include "ref/backend/attend.h"
#include "ref/backend/backend.h"
#include "ref/backend/future.h"
#include "ref/backend/leaves.h"
#include "ref/ground/places.h"

/* One method on one layer in flight. It owns its arrays. */
struct kv_store {
  const kv_plan *opened; /* for all layers */
  const kv_plan *plan;   /* of the current layer */
  kv_shape shape; /* the plan's, with the prompt_len of the last prompt */
  const kv_layer_data *data; /* rows of the current layer */
  const kv_tensor *asset;    /* of the method's file for that layer, or NULL */
  int lanes;
  kv_lane *lane;     /* [lanes] */
  kv_ahead *ahead;   /* [lanes]; NULL: steps come one by one */
  kv_future *future; /* with needs.future; else NULL */
  float *out;        /* [n_heads][d_v + 1]: output, then LSE, of the step */
  kv_digest *state;  /* [lanes] before the due compression; after finish, at the
                        layer's end */
  kv_leaves leaves;
  const kv_message *above; /* for the current block or step; NULL: none */
  kv_message said;         /* the message that the layer publishes */
  char *message;           /* its bytes; NULL if needs.message is 0 */
  bool published;          /* was `said` published in this block or step? */
  kv_turns turns;          /* with needs.rope */
  kv_places *places;       /* with needs.reindex; else NULL */
  kv_shows shows;          /* digests of scores; zeroed: switched off */
};

enum { KV_TILE_ROWS = 32 }; /* most prompt rows at once */

/* The working memory of one thread. It owns its arrays. */
struct kv_scratch {
  int heads;      /* query heads of a KV head */
  size_t stride;  /* kv_ref_stride: floats from row to row of logits */
  int tile_rows;  /* prompt rows at once */
  float *q;       /* [tile_rows][heads][d] */
  float *s;       /* [tile_rows][heads][stride] */
  float *p;       /* the same: probabilities */
  int64_t *sum;   /* [heads][stride] */
  float *g;       /* [heads][stride] logits in view order */
  float *ahead_q; /* [tile][heads][d] queries of rows ahead */
  float *ahead_s; /* [tile][heads][stride] and their logits; NULL: no plan has a
                     tile */
  kv_view *view;  /* [heads] */
  float *out, *lse; /* [heads][d_v], [heads] */
  bool all;         /* s has the logits of every entry of the lane */
  bool together;    /* all heads of the lane attend to every entry */
  bool as_known;    /* and these are all tokens, as recorded: `known` has the
                       attention */
  const kv_known *known; /* from view to attend */
  kv_chunk *more; /* [heads] chunks added by the method; NULL if none does */
  float *more_a;  /* [heads][d_v] */
  bool *seen;     /* [n_tokens] entries in any view; NULL if no method both
                     views and codes */
  kv_materialised materialised; /* memory for decoded rows; NULL as seen is */
  kv_attend_scratch attend;
  kv_work work;      /* the hooks' workspace */
  kv_lane_room room; /* lent to the current lane */
};

/* Floats a row of logits: one cache line more than the tokens, because rows a
 * power of two apart would compete for the same cache sets. */
static inline size_t kv_ref_stride(const kv_shape *s) {
  return ((size_t)s->n_tokens + 15) / 16 * 16 + 16;
}

/* The kv_at of a hook at `step` tokens seen; empties the workspace. */
kv_at kv_store_at(const kv_store *s, int step, kv_scratch *x);

/* Call it after each hook, with its name. Sweeps the lane. If the hook left
 * another floating-point mode, restores the mode and sets the lane's fault
 * (KV_REFUSED), unless it has one. */
void kv_store_left(const kv_store *s, kv_lane *l, const char *hook);

/* Widens the recorded query of query head h, token t, into out[d]; asserts that
 * the trace has that row. */
void kv_store_query(const kv_store *s, int h, int t, float *out);

/* Passes rows to a lane's observe hook, without what needs.want excludes. */
void kv_store_observe(kv_store *s, kv_lane *l, kv_rows rows, kv_scratch *x);

/* --- of kv_backend_ref, by the contract of ref/backend/backend.h ---------- */

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
/* Passes the row of a decode step to the hook observe, after attend. */
void kv_ref_observe(kv_store *s, kv_lane *l, kv_scratch *x);
/* backend.c */
/* If a window moves over the layer (kv_plan_window): drops, by one keep, the
 * entries that the token after the lane's last does not see. The methods' rows
 * of numbers by entry (needs.slid) move with the entries. O(n). */
void kv_ref_slide(kv_store *s, kv_lane *l);
/* decode.c */
void kv_ref_ahead(kv_store *s, int lane, int t, int steps,
                  const kv_known *known, kv_scratch *x);
/* observation.c */
void kv_ref_observation(kv_store *const *s, int n, int g, int first, int count,
                        kv_scratch *x);

#endif
