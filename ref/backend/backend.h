/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table through which the engine reaches memory and attention. A
 * kv_store is one method on one layer in flight: its lanes and what the
 * current step left for the engine to read.
 *
 * Order of calls for a layer: begin; for each prompt block: receive; append for
 * every lane, observation, compress for every lane, compress_layer, publish,
 * end_step; now and then: ahead, for every lane; for each decode step: receive,
 * append, view, materialise, attend, (seen), compress for every lane,
 * compress_layer, publish, end_step; finish. A later prompt begins with
 * `prompt`, and its blocks follow. So does each chunk of a prompt that is read
 * in chunks (kv_shape.chunk); of all but the first, after receive, each row:
 * append of its token, view, materialise, attend, (seen), end_step, but the
 * last instead: observation of the chunk, and on as of a block.
 * sim/replay/engine/order.h makes the calls of a block and of a step. Where
 * `threads` is true, those for different lanes of one store may run at the same
 * time, each with a scratch of its own. Only open and scratch_open return a
 * code; what fails later stands in `fault`, where the engine looks at the end
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
 * (sim/replay/layout/README.md): masked; or rewritten where lanes lost entries,
 * each lane to its own; or where all lanes of a layer have lost one, to the
 * tokens that any of them holds; or masked by one mask for all lanes of a
 * layer. It changes no result. */
typedef enum kv_indices {
  KV_INDICES_NONE,
  KV_INDICES_MASKED,
  KV_INDICES_REWRITTEN,
  KV_INDICES_JOINED,
  KV_INDICES_SHARED
} kv_indices;

/* What a store is opened for. It and what it points to outlive the store. Where
 * layers differ in what they were opened with (a budget a layer), each has a
 * plan of its own, alike but for params and needs; the needs of the plan that
 * leads them have room for every layer's. */
typedef struct kv_plan {
  const kv_shape *shape;
  const kv_rope *rope;       /* of the trace */
  const kv_kernels *kernels; /* row kernels of the processor */
  const kv_method *method;
  const void *params;    /* resolved by method->open */
  const kv_asset *asset; /* of the method's file; NULL: it has none */
  kv_needs needs;        /* filled in by method->open */
  bool colsum; /* prompt rows are missing: observation gets their recorded
                  column sums instead (kv_layer_data.colsum) */
  bool logits; /* kv_seen.s is asked for */
  int tile;    /* most rows that `ahead` names at once; below 2: it is not
                  called */
  bool known;  /* the caller of `ahead` lends their exact logits */
  bool (*stop)(void); /* or NULL; a backend of few, long calls asks it within
                         them: true, and then for good: the layer's results are
                         not wanted any more */
  bool paged; /* coded rows lie in unified pages (ref/PAGES.md), if the backend
                 can keep them there; changes no result */
  kv_indices indices;
  bool slides; /* a layer with a sliding window loses, at the end of each block
                  and step and before a compression, the entries that the next
                  token does not see; of needs.slides */
  bool scores; /* digests of what selections are shown are asked for */
  const kv_shown_to *shown;    /* and who is told of each list, or NULL */
  const struct kv_plan *layer; /* [shape->n_layers], or NULL: all are alike */
  const kv_run *asked; /* [n_asked] tokens that enter as later prompts, by the
                          call `prompt`: known beforehand where needs.future */
  int n_asked;
  bool pieces; /* `asked` are pieces of the prompt: a method of needs.chunks is
                  shown rows of earlier ones again (ref/ground/chunk.h) */
} kv_plan;

/* The plan of a layer of the model; p: the plan that leads. */
static inline const kv_plan *kv_plan_of(const kv_plan *p, int layer) {
  return p->layer ? &p->layer[layer] : p;
}

/* The window, in tokens, that moves over lanes of the layer; 0: none does, and
 * nothing leaves them but by the method. */
static inline int kv_plan_window(const kv_plan *p, const kv_layer_data *data) {
  return p->slides ? data->window : 0;
}

/* Do lanes of the layer change at the end of the block or step that ends at
 * `step` tokens seen: is a compression due, or does a window move? */
static inline bool kv_plan_due(const kv_plan *p, const kv_layer_data *data,
                               const kv_shape *s, int step) {
  return kv_plan_window(p, data) || kv_compression_due(&p->needs, s, step);
}

/* The exact truth of one decode row for the query heads of one KV head,
 * computed once for all methods; s is finite, and there where `out` is and for
 * the call `ahead`. */
typedef struct kv_known {
  const float *q; /* [queries][d] fp32 */
  const float *s; /* [queries][stride] logits by token id, first..t, or NULL */
  size_t stride;
  int first; /* the first token that the row sees */
  /* [queries][d_v] and [queries]: attention of all tokens that the row sees, as
   * recorded, for lanes that hold just these; or NULL. */
  const float *out, *lse;
} kv_known;

/* What one query row saw, valid until the next call with that scratch. */
typedef struct kv_seen {
  const kv_lane *lane;
  int queries;
  const kv_view *view; /* [queries] */
  const float *s;      /* [queries][stride] logits by entry, in views only;
                          perhaps NULL where the plan does not ask for them */
  size_t stride;
  const float *out;            /* [queries][d_v] */
  const float *lse;            /* [queries] */
  const struct kv_chunk *more; /* [queries] that the method added itself
                                  (ref/backend/attend.h); NULL: it adds none,
                                  or the backend keeps them to itself */
} kv_seen;

/* D(l) of a finished layer (ref/lane/journal.h, ref/lane/shown.h). Of scores
 * that were not asked for it is the digest of nothing. */
typedef struct kv_layer_digests {
  kv_digest journal, state, output, scores;
} kv_layer_digests;

/* All functions are there but `ahead`, `copy` and `lacked`, which may be NULL.
 * `lane`: 0 .. lanes - 1; `x`: the scratch of the calling thread. */
typedef struct kv_backend {
  const char *name; /* as after --backend */
  /* It computes on the processor, with the plan's kernels, in as many threads
   * as call it; else one thread calls it. */
  bool threads;
  /* Takes the memory of a store; on a device that of entries' rows is taken
   * later, as tokens enter. KV_RESOURCE, *out left alone: there is not enough,
   * or the backend cannot serve the plan. */
  kv_rc (*open)(const kv_plan *plan, kv_store **out, kv_err *e);
  void (*close)(kv_store *s); /* accepts NULL */
  /* The same of a thread's scratch, for the stores of all of these plans. */
  kv_rc (*scratch_open)(const kv_shape *shape, const kv_plan *const *plan,
                        int plans, kv_scratch **out, kv_err *e);
  void (*scratch_close)(kv_scratch *x); /* accepts NULL */

  int (*lanes)(const kv_store *s); /* how many a layer has */
  /* A lane to read, after a step as it then is; owned by the store. */
  const kv_lane *(*lane)(const kv_store *s, int lane);

  /* Empties all lanes for a layer whose rows are `data`, under the plan of that
   * layer. */
  void (*begin)(kv_store *s, const kv_layer_data *data);
  /* The tokens that come next, up to `end`, enter as a prompt again, by blocks
   * as the first one did. From here on hooks, observation and compression see a
   * shape whose prompt_len is `end`; begin puts it back. */
  void (*prompt)(kv_store *s, int end);
  /* What the layers above published at the block or step that comes next, or
   * NULL: good until end_step. Of plans whose needs.across is KV_DOWN; without
   * any call since begin nothing was published. */
  void (*receive)(kv_store *s, const kv_message *above);
  /* Tokens first..first+count-1 enter; then the method's arrive. */
  void (*append)(kv_store *s, int lane, int first, int count, kv_scratch *x);
  /* The block's query rows, as far as methods asked for them, to the observe
   * hooks of n stores that hold the same tokens unchanged (or of one store,
   * whatever it holds), for the lanes of KV head g. */
  void (*observation)(kv_store *const *s, int n, int g, int first, int count,
                      kv_scratch *x);
  /* The rows of tokens t..t+steps-1 follow, decode steps or rows of one chunk;
   * where plan.known, known has them one after another and is good within the
   * call, or is NULL as one is not finite; else it is NULL. What is computed
   * here changes no result. NULL: the backend has no use for it. */
  void (*ahead)(kv_store *s, int lane, int t, int steps, const kv_known *known,
                kv_scratch *x);
  /* A decode step of token t, the lane's last, in three calls with one scratch
   * and nothing between them. First the views of all query heads of the lane
   * are decided and, but for plans with needs.unread, recorded; known (may be
   * NULL) is good until attend has returned. */
  void (*view)(kv_store *s, int lane, int t, const kv_known *known,
               kv_scratch *x);
  /* Then coded rows that several heads would decode for themselves, because
   * their views differ, are decoded once, over the union of the views, into
   * fp32 rows that last until attend has returned. Raw and merged rows are
   * read where they are; where all heads see every entry, a row is decoded on
   * its way through the one pass that they share. */
  void (*materialise)(kv_store *s, int lane, kv_scratch *x);
  /* Then every head attends its view. */
  void (*attend)(kv_store *s, int lane, kv_scratch *x);
  /* What the attention just made has read and computed. */
  kv_seen (*seen)(const kv_store *s, int lane, const kv_scratch *x);
  /* At the end of a block or step. Decode, where needs.decode_rows: the step's
   * row to the hook observe. Then, if a compression is due or a window moves
   * (kv_plan_due): the lane's state for the digest; entries leave that the
   * window has passed; and, if one is due, the hook compress_lane. */
  void (*compress)(kv_store *s, int lane, kv_scratch *x);
  /* When all lanes have: the hook compress_layer, if one is due. */
  void (*compress_layer)(kv_store *s, kv_scratch *x);
  /* What the layer publishes at this block or step, or NULL: good until the
   * next receive. Called where receive is. */
  const kv_message *(*publish)(kv_store *s, kv_scratch *x);
  /* Closes the step's leaves of the digest trees. */
  void (*end_step)(kv_store *s);
  /* Between two blocks or steps, or after finish: `to`, opened for an equal
   * plan and begun for the same layer, with nothing entered yet, becomes what
   * `from` is: lanes, digests so far, where the last prompt ends. Rows that no
   * verb has rewritten are read from to's own data, where they must lie, too.
   * Cannot fail; costs a copy of what is stored. NULL: the backend has none. */
  void (*copy)(const kv_store *from, kv_store *to);
  /* After the layer's last step: its digests. */
  kv_layer_digests (*finish)(kv_store *s);
  /* After KV_RESOURCE: true if memory of a device was lacking, so that other
   * stores may be opened and used all the same. NULL: it never is. */
  bool (*lacked)(void);
  /* A fault since begin, of several lanes that of the first; NULL: none. */
  const kv_err *(*fault)(const kv_store *s);
} kv_backend;

extern const kv_backend kv_backend_ref; /* the reference */

/* A reference that computes no output and no digest, for the search of byte
 * budgets. What its lanes and views hold, and so the ledger, equals ref's. */
extern const kv_backend kv_backend_cost;

/* A reference that never reads queries, for the same: no
 * observation, no attention, no digests, and every view is of all entries. Only
 * the bytes of its lanes are valid, and only if needs.lengths; they then equal
 * ref's. */
extern const kv_backend kv_backend_blind;

/* True if the backend has the method. The reference has every one; the others
 * have those that are not ref-only. */
bool kv_backend_has(const kv_backend *b, const kv_method *m);

#endif
