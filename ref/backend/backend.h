/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend is the one table through which the engine reaches memory and
 * attention. A kv_store is one method on one layer in flight: its lanes, and
 * what the current step left for the engine to read.
 *
 * Order of calls for a layer; sim/replay/engine/order.h makes those of a block
 * and of a step:
 *
 *   begin
 *   each prompt block  receive; each lane: append; observation; each lane:
 *                      compress; compress_layer, publish, end_step
 *   each decode step   receive; each lane: append, view, materialise, attend,
 *                      (seen), compress; compress_layer, publish, end_step
 *   now and then       ahead, for every lane, before the steps that it names
 *   finish
 *
 * A later prompt begins with `prompt`, and its blocks follow. So does each
 * chunk of a prompt that is read in chunks (kv_shape.chunk). In all chunks but
 * the first, each row after `receive` does: append of its token, view,
 * materialise, attend, (seen), end_step. The last row replaces end_step by the
 * chunk's observation and continues as a block does.
 *
 * If `threads` is true, calls for different lanes of one store may run at the
 * same time, each with its own scratch. Only open and scratch_open return a
 * code. Later failures are kept in `fault`, which the engine reads at the end
 * of the layer.
 */
#ifndef KV_REF_BACKEND_H
#define KV_REF_BACKEND_H

#include "ref/kernels/kernels.h"
#include "ref/lane/lane.h"
#include "ref/lane/shown.h"

typedef struct kv_store kv_store;
typedef struct kv_scratch kv_scratch; /* of one thread */

/* How a backend that can do so keeps rows by regular indices
 * (sim/replay/layout/README.md). No result changes. */
typedef enum kv_indices {
  KV_INDICES_NONE,
  KV_INDICES_MASKED,    /* rows that a lane lost are masked */
  KV_INDICES_REWRITTEN, /* each lane's indices are rewritten after it lost
                           entries */
  KV_INDICES_JOINED, /* rewritten when all lanes of a layer have lost a token,
                        to the tokens that any of them holds */
  KV_INDICES_SHARED  /* masked, with one mask for all lanes of a layer */
} kv_indices;

/* What a store is opened for. The plan and what it points to outlive the store.
 * If layers were opened with different budgets, each has a plan of its own that
 * differs in params and needs alone; the needs of the leading plan then suffice
 * for every layer. */
typedef struct kv_plan {
  const kv_shape *shape;
  const kv_rope *rope;       /* the trace's */
  const kv_kernels *kernels; /* row kernels of the processor */
  const kv_method *method;
  const void *params;    /* resolved by method->open */
  const kv_asset *asset; /* the method's file; NULL: it has none */
  kv_needs needs;        /* filled in by method->open */
  bool colsum; /* prompt rows are missing: observation gets their recorded
                  column sums instead (kv_layer_data.colsum) */
  bool logits; /* the engine reads kv_seen.s */
  int tile;    /* most rows that `ahead` names at once; below 2: `ahead` is not
                  called */
  bool known;  /* `ahead` gets the exact logits of its rows */
  /* NULL, or true once the layer's results are no longer wanted, and then
   * always. A backend of few, long calls polls it within them. */
  bool (*stop)(void);
  bool paged; /* coded rows are kept in unified pages (ref/PAGES.md), if the
                 backend can; changes no result */
  kv_indices indices;
  bool slides; /* with needs.slides: at the end of each block and step, and
                  before a compression, a layer with a sliding window loses the
                  entries that the next token does not see */
  bool scores; /* compute digests of the scores that selections are shown */
  const kv_shown_to *shown;    /* receives each list of scores, or NULL */
  const struct kv_plan *layer; /* [shape->n_layers], or NULL: all are alike */
  const kv_run *asked;         /* [n_asked] tokens that enter as later prompts
                                  (`prompt`), which needs.future must know */
  int n_asked;
  bool pieces; /* `asked` are pieces of the prompt: methods with needs.chunks
                  see rows of earlier pieces again (ref/ground/chunk.h) */
} kv_plan;

/* The plan of one layer of the model; p is the leading plan. */
static inline const kv_plan *kv_plan_of(const kv_plan *p, int layer) {
  return p->layer ? &p->layer[layer] : p;
}

/* The sliding window of the layer, in tokens, if entries leave its lanes by it;
 * else 0: only the method removes entries. */
static inline int kv_plan_window(const kv_plan *p, const kv_layer_data *data) {
  return p->slides ? data->window : 0;
}

/* Do the layer's lanes change at the end of the block or step that ends at
 * `step` tokens seen, by a compression or a sliding window? */
static inline bool kv_plan_due(const kv_plan *p, const kv_layer_data *data,
                               const kv_shape *s, int step) {
  return kv_plan_window(p, data) || kv_compression_due(&p->needs, s, step);
}

/* The exact attention of one decode row, for the query heads of one KV head,
 * computed once for all methods. s is finite unless NULL; it exists if `out`
 * does, and in `ahead`. */
typedef struct kv_known {
  const float *q; /* [queries][d] fp32 */
  const float *s; /* [queries][stride] logits by token id, first..t, or NULL */
  size_t stride;
  int first; /* the first token that the row sees */
  /* [queries][d_v] and [queries]: attention over all tokens that the row sees,
   * as recorded, for lanes that hold exactly these tokens; or NULL. */
  const float *out, *lse;
} kv_known;

/* What one query row saw, valid until the next call with that scratch. */
typedef struct kv_seen {
  const kv_lane *lane;
  int queries;
  const kv_view *view; /* [queries] */
  const float *s; /* [queries][stride] logits by entry, defined for entries in
                     the view; NULL is possible unless plan.logits */
  size_t stride;
  const float *out;            /* [queries][d_v] */
  const float *lse;            /* [queries] */
  const struct kv_chunk *more; /* [queries] chunks that the method added
                                  (ref/backend/attend.h); NULL: none, or the
                                  backend does not show them */
} kv_seen;

/* D(l) of a finished layer (ref/lane/journal.h, ref/lane/shown.h). Without
 * plan.scores, `scores` is the digest of nothing. */
typedef struct kv_layer_digests {
  kv_digest journal, state, output, scores;
} kv_layer_digests;

/* `ahead`, `copy` and `lacked` may be NULL; the other functions may not. `lane`
 * is 0 .. lanes - 1; `x` is the scratch of the calling thread. */
typedef struct kv_backend {
  const char *name; /* as after --backend */
  /* True: it computes on the CPU with the plan's kernels, in every thread that
   * calls it. False: only one thread may call it. */
  bool threads;
  /* Allocates a store. A device allocates memory for entries' rows later, as
   * tokens enter. KV_RESOURCE, *out unchanged: there is not enough memory, or
   * the backend cannot serve the plan. */
  kv_rc (*open)(const kv_plan *plan, kv_store **out, kv_err *e);
  void (*close)(kv_store *s); /* accepts NULL */
  /* Allocates a thread's scratch for the stores of all these plans; fails as
   * open does. */
  kv_rc (*scratch_open)(const kv_shape *shape, const kv_plan *const *plan,
                        int plans, kv_scratch **out, kv_err *e);
  void (*scratch_close)(kv_scratch *x); /* accepts NULL */

  int (*lanes)(const kv_store *s); /* how many a layer has */
  /* A lane to read, as it is after the current step; owned by the store. */
  const kv_lane *(*lane)(const kv_store *s, int lane);

  /* Empties all lanes for a layer whose rows are `data`, under its plan. */
  void (*begin)(kv_store *s, const kv_layer_data *data);
  /* The next tokens, up to `end`, enter as another prompt, in blocks as the
   * first one did. From here on hooks, observation and compression see a shape
   * whose prompt_len is `end`; begin resets it. */
  void (*prompt)(kv_store *s, int end);
  /* The message of the layers above at the next block or step, or NULL. Valid
   * until end_step. Called with KV_DOWN only; without a call since begin,
   * nothing was published. */
  void (*receive)(kv_store *s, const kv_message *above);
  /* Tokens first..first+count-1 enter; then the method's arrive. */
  void (*append)(kv_store *s, int lane, int first, int count, kv_scratch *x);
  /* Passes the block's query rows, as far as the methods want them, to the
   * observe hooks for the lanes of KV head g. The n stores must hold the same
   * unchanged tokens; a single store may hold anything. */
  void (*observation)(kv_store *const *s, int n, int g, int first, int count,
                      kv_scratch *x);
  /* Announces that the rows of tokens t..t+steps-1 come next: decode steps, or
   * rows of one chunk. The backend may compute ahead; no result changes.
   * `known`: the exact rows, one after another, if plan.known is set and all
   * are finite; otherwise NULL. Valid only during the call. */
  void (*ahead)(kv_store *s, int lane, int t, int steps, const kv_known *known,
                kv_scratch *x);
  /* A decode step of token t, the lane's last, is three calls with one scratch
   * and nothing between them. view decides the views of all query heads of the
   * lane and records them, except under needs.unread. known may be NULL and
   * must stay valid until attend has returned. */
  void (*view)(kv_store *s, int lane, int t, const kv_known *known,
               kv_scratch *x);
  /* Decodes, once, coded rows that several heads would otherwise decode because
   * their views differ. It covers the union of the views; the fp32 rows are
   * valid until attend has returned. Raw and merged rows are read where they
   * are. If all heads see every entry, attend decodes each row in the one pass
   * that they share. */
  void (*materialise)(kv_store *s, int lane, kv_scratch *x);
  /* Every head attends to its view. */
  void (*attend)(kv_store *s, int lane, kv_scratch *x);
  /* What that attend has read and computed. */
  kv_seen (*seen)(const kv_store *s, int lane, const kv_scratch *x);
  /* At the end of a block or step. At a decode step with needs.decode_rows:
   * passes the row to the hook observe. Then, if a compression is due or a
   * window moves (kv_plan_due): digests the lane's state, removes entries that
   * the window has passed, and, if one is due, calls the hook compress_lane. */
  void (*compress)(kv_store *s, int lane, kv_scratch *x);
  /* After compress in all lanes: calls the hook compress_layer, if due. */
  void (*compress_layer)(kv_store *s, kv_scratch *x);
  /* The message that the layer publishes at this block or step, or NULL. Valid
   * until the next receive. Called with KV_DOWN only. */
  const kv_message *(*publish)(kv_store *s, kv_scratch *x);
  /* Closes the step's leaves of the digest trees. */
  void (*end_step)(kv_store *s);
  /* Makes `to` equal to `from`: lanes, digests so far, end of the last prompt.
   * Called between two blocks or steps, or after finish. `to` was opened for an
   * equal plan and begun for the same layer, and is empty. Rows that no verb
   * has rewritten are read from to's own data, which must hold them. Cannot
   * fail; costs a copy of what is stored. NULL: the backend cannot copy. */
  void (*copy)(const kv_store *from, kv_store *to);
  /* After the layer's last step: its digests. */
  kv_layer_digests (*finish)(kv_store *s);
  /* After KV_RESOURCE: true if a device lacked memory, so that other stores may
   * still be opened and used. NULL: never. */
  bool (*lacked)(void);
  /* The first fault since begin, by lane; NULL: none. */
  const kv_err *(*fault)(const kv_store *s);
} kv_backend;

extern const kv_backend kv_backend_ref; /* the reference */

/* A reference that computes no output and no digest, for the search for byte
 * budgets. Its lanes and views, and so the ledger, equal those of ref. */
extern const kv_backend kv_backend_cost;

/* A reference for the same search that never reads queries: no observation, no
 * attention, no digests, and every view holds all entries. Only its lanes'
 * bytes are valid, only with needs.lengths; they then equal those of ref. */
extern const kv_backend kv_backend_blind;

/* Does the backend have the method? Only ref has methods that are ref-only. */
bool kv_backend_has(const kv_backend *b, const kv_method *m);

#endif
