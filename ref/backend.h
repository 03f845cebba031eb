/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table through which the engine reaches memory and attention. A
 * kv_store is one method on one layer in flight: its lanes and what the
 * current step left for the engine to read. `ref` fills the table first.
 *
 * Order of calls for a layer: begin; for each prompt block: append for every
 * lane, evidence, settle for every lane, settle_layer, end_step; for each
 * decode step: append, attend, (seen), settle for every lane, settle_layer,
 * end_step; finish. Calls for different lanes of one store may run at the
 * same time, each with a scratch of its own.
 */
#ifndef KV_REF_BACKEND_H
#define KV_REF_BACKEND_H

#include "ref/kernels.h"
#include "ref/lane.h"

typedef struct kv_store kv_store;
typedef struct kv_scratch kv_scratch; /* of one thread */

/* What a store is opened for. Everything outlives the store. */
typedef struct kv_plan {
  const kv_shape *shape;
  const kv_rope *rope;
  const kv_kernels *kernels;
  const kv_method *method;
  const void *params; /* resolved by method->open */
  kv_needs needs;
  bool colsum; /* prompt rows are missing: their recorded sums stand in */
  bool logits; /* kv_seen's are asked for */
} kv_plan;

/* The exact truth of one decode row for the query heads of one KV head,
 * computed once for all methods; s is finite. */
typedef struct kv_known {
  const float *q; /* [queries][d] fp32 */
  const float *s; /* [queries][stride] logits by token id, 0..t, or NULL */
  size_t stride;
} kv_known;

/* What one query row saw, valid until the next call with that scratch. */
typedef struct kv_seen {
  const kv_lane *lane;
  int queries;
  const kv_view *view; /* [queries] */
  const float *s;      /* [queries][stride] logits by entry, in views only;
                          perhaps NULL where the plan does not ask for them */
  size_t stride;
  const float *out; /* [queries][d_v] */
  const float *lse; /* [queries] */
} kv_seen;

/* Digests of a finished layer. */
typedef struct kv_layer_digests {
  kv_digest journal, state, output;
} kv_layer_digests;

typedef struct kv_backend {
  const char *name;
  kv_rc (*open)(const kv_plan *plan, kv_store **out, kv_err *e);
  void (*close)(kv_store *s); /* accepts NULL */
  kv_rc (*scratch_open)(const kv_shape *shape, const kv_plan *const *plan,
                        int plans, kv_scratch **out, kv_err *e);
  void (*scratch_close)(kv_scratch *x); /* accepts NULL */

  int (*lanes)(const kv_store *s);
  const kv_lane *(*lane)(const kv_store *s, int lane);

  void (*begin)(kv_store *s, const kv_layer_data *data);
  /* Tokens first..first+count-1 enter; then the method's arrive. */
  void (*append)(kv_store *s, int lane, int first, int count, kv_scratch *x);
  /* The block's query rows, as far as methods asked for them, to the observe
   * hooks of n stores that hold the same tokens unchanged (or of one store,
   * whatever it holds), for the lanes of KV head g. */
  void (*evidence)(kv_store *const *s, int n, int g, int first, int count,
                   kv_scratch *x);
  /* View and attend for token t, the last of the lane. */
  void (*attend)(kv_store *s, int lane, int t, const kv_known *known,
                 kv_scratch *x);
  kv_seen (*seen)(const kv_store *s, int lane, const kv_scratch *x);
  /* Decode: observe. Then, if a settling is due: state, settle_lane. */
  void (*settle)(kv_store *s, int lane, kv_scratch *x);
  void (*settle_layer)(kv_store *s, kv_scratch *x); /* if due */
  /* Closes the step's leaves of the digest trees. */
  void (*end_step)(kv_store *s);
  kv_layer_digests (*finish)(kv_store *s);
  /* First fault of any lane since begin; NULL: none. */
  const kv_err *(*fault)(const kv_store *s);
} kv_backend;

extern const kv_backend kv_backend_ref;

/* The reference without a look at q: no evidence, no attention, no digests. A
 * step reads everything that is stored. Bytes stored are those of ref where
 * needs.lengths says so; nothing else of it means anything. */
extern const kv_backend kv_backend_blind;

/* Has it the method? The reference has every one, others a twin of each that is
 * not ref-only. */
bool kv_backend_has(const kv_backend *b, const kv_method *m);

/* By name; NULL if there is none. */
const kv_backend *kv_backend_named(const char *name);

#endif
