/* SPDX-License-Identifier: Apache-2.0
 *
 * A compression method is one const table of type kv_method. Its `open` may
 * fail and makes every decision that depends on shape and parameters. The hooks
 * return no error, allocate nothing, leave the floating-point mode as it is
 * (ref/ground/float.h) and change memory only through the verbs of
 * ref/lane/lane.h. kv_needs and the presence of a hook determine when it runs:
 * the engine has no branch on a method.
 *
 * For each block or step of a layer the engine does this in each lane: append
 * the tokens; arrive; at a decode step view, chunk and attend; observe, if the
 * method wants rows; compress_lane, if a compression is due. Then, for the
 * whole layer: compress_layer, if due, and publish. A lane hook touches only
 * its own lane, so lanes run in parallel.
 */
#ifndef KV_REF_METHOD_H
#define KV_REF_METHOD_H

#include "ref/formats/format.h"
#include "ref/ground/arith.h"
#include "ref/ground/chunk.h"
#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/lane/param.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct kv_lane kv_lane;
typedef struct kv_method kv_method;
struct kv_around;
struct kv_kernels;

enum {
  KV_MAX_COLUMNS = 4,
  KV_MAX_CLASSES = 4, /* the ledger has as many kinds, tier_0 .. */
  KV_MAX_CODINGS = 8,
  KV_MAX_META = 4
};

/* What query rows carry, as a set (kv_needs.want). Nothing else is computed. */
enum {
  KV_Q = 1,   /* queries */
  KV_S = 2,   /* logits, arithmetic 1: scaled, under the model's cap, biased */
  KV_P = 4,   /* probabilities, arithmetic 4 */
  KV_SUM = 8, /* per query head and entry: sum over the rows of RN(P*2^40) */
  KV_LOGITS = KV_S | KV_P | KV_SUM /* everything computed from logits */
};

/* Whether layers pass data to each other. */
typedef enum kv_across {
  KV_ALONE, /* no */
  KV_DOWN   /* at each block or step a layer may publish a message for the
               layers with higher numbers (publish, kv_at.above) */
} kv_across;

/* One lane for each KV head of a layer, or for each query head. */
typedef enum kv_lanes { KV_HEAD, QUERY_HEAD } kv_lanes;
/* Element type of a column: int64_t or float. */
typedef enum kv_column { KV_INT64, KV_FLOAT } kv_column;
static inline int kv_column_size(kv_column c) { return c == KV_INT64 ? 8 : 4; }

/* Tables by layer have KV_BY_LAYER + 1 entries. The last one is for all further
 * layers. */
enum { KV_BY_LAYER = 512 };
KV_FN int kv_by_layer_at(int layer) {
  return layer < KV_BY_LAYER ? layer : KV_BY_LAYER;
}

/* Memory that a method holds in addition to entries and columns. `scanned` says
 * how much of it a decode step reads to choose what attention reads; the ledger
 * counts it once a lane, because query heads share one fetch. Logits for the
 * view hook (view_logits) need no row here: the engine charges every key of the
 * lane by itself. */
typedef enum kv_meta_per {
  KV_PER_LANE,  /* each lane */
  KV_PER_ENTRY, /* each live entry */
  KV_PER_PAGE,  /* each started run of `page` live entries */
  KV_PER_LAYER  /* each layer: its lane 0 is charged */
} kv_meta_per;

typedef struct kv_meta {
  const char *name; /* for people: "page bounds" */
  kv_meta_per per;
  int page;     /* entries a page, with KV_PER_PAGE */
  size_t bytes; /* held for each lane, entry, page or layer, at most */
  const uint32_t *in_layer; /* NULL: `bytes` in every layer; else what is held
                               in a layer, by kv_by_layer_at. It lives as long
                               as the method's params. `scanned` is then 0 */
  size_t scanned; /* Bytes of these that a decode step reads, in methods with a
                     view. 0 in layers below from_layer (the model's number) and
                     in lanes of at most `above` entries: there the view must
                     hold every entry. */
  int from_layer, above;
  int most; /* most entries or pages that a lane reads; 0: all. A method that
               narrows reads only what the first method's view holds, for each
               query head (its `viewed`) */
} kv_meta;

/* What a method needs from the engine. `open` fills it in once, zeroed before,
 * from shape and parameters. A new field also needs a line in ref/lane/needs.c.
 */
typedef struct kv_needs {
  int block;       /* most prompt tokens that enter at once; 0: all */
  int prompt_rows; /* the last so many prompt queries go to observe; of a prompt
                      read in chunks, at the end of each chunk (chunk.h) */
  bool decode_rows; /* show observe every decode step */
  unsigned want;    /* what the rows carry: KV_Q | KV_S | KV_P | KV_SUM */
  bool narrows;     /* may be the second of two methods on a lane: its view then
                       chooses among the entries of the first's view
                       (kv_query.within) */
  int viewed; /* most entries in a query head's view, unless the view holds the
                 whole lane; 0: no known bound */
  bool view_logits; /* view is given the logits of all live entries */
  int columns;      /* numbers per entry that travel with it */
  kv_column column[KV_MAX_COLUMNS];
  int every, phase; /* A compression is due after the last prompt block; after
                       every prompt block, if block != 0; and, if every != 0,
                       when (step - prompt_len - phase) % every == 0. */
  bool merges;      /* uses the verb merge: entries carry weights */
  kv_means merged;  /* how merged rows are stored */
  float merge_bias; /* logit += merge_bias * ln(weight) */
  int classes; /* Entries have a class, 0 .. classes - 1. It is 0 when the entry
                  enters; the verb retier changes it. 0 or 1: no classes, and
                  nothing is stored or charged for them. */
  unsigned unread; /* Set of classes (bit c: class c) that no view holds; every
                      view then holds all other entries. Views follow from
                      retier and write no record. The ledger counts no byte an
                      entry for the class; the method declares what it holds in
                      `meta`. */
  unsigned host;   /* Set of classes whose entries are in host memory. What a
                      decode step reads of them is fetched first, once for all
                      query heads of a lane (the ledger's `fetched`). */
  bool reindex;    /* entry i is attended at p0 + i (ref/ground/places.h) */
  bool rope; /* hooks read kv_at.rope, or a coding is pre_rope or shifted: the
                trace must hold frequencies */
  bool key_bias; /* hooks read kv_layer_data.k_bias: the trace must hold it */
  int ahead; /* with rope: row n_tokens of the turns is the mean rotation by 1
                .. ahead positions */
  kv_lanes lanes; /* a lane for each KV head, or for each query head */
  kv_across across;
  size_t message; /* bytes of a message, with KV_DOWN; else 0 */
  int changes;    /* How often the verbs of one block or step name an entry at
                     most, not counting keep; 0: 2. Sizes the buffer of records
                     and, on a device, that of rewritten rows. */
  size_t lane_state; /* bytes a lane, zeroed; kv_own */
  size_t work;       /* bytes of workspace beyond KV_WORK(n_tokens) */
  bool slides; /* Entries may leave at the front of a lane without a verb, when
                  the layer's sliding window passes them (kv_plan.slides). The
                  method then keeps data about entries only in columns and in
                  the `slid` rows. An entry that enters after a drop means what
                  it meant before. If the method sees logits, its verbs leave
                  entries in token order. */
  int slid;    /* with slides: lane_state begins with so many rows of n_tokens
                  8-byte numbers, one an entry, which move with the entries */
  bool chunks; /* the prompt may be read in chunks (kv_shape.chunk): the view
                  also serves the rows of later chunks */
  bool arrive_in_prompt; /* the hook arrive runs only for a prompt's tokens */
  bool future;  /* Compressions read kv_lane.future: the exact mass that each
                   token gets from later decode rows. Only baselines can use it.
                   Refused where rows come one by one, in a session. */
  bool lengths; /* Bytes stored at each step follow from lengths and parameters
                   alone, so the search for a byte budget reads no queries. */
  bool lanes_apart; /* With these parameters compress_layer, if there is one,
                       does nothing: a device need not start it. */
  int metas;        /* rows of `meta`, charged as `side` */
  int codings; /* formats that recode may name, in `coding`: KV_CODED + index */
  int tiers;   /* pairs of K and V formats that entries may have, if the method
                  says which; 0: coding i of K goes with coding i of V */
  kv_coding coding[KV_MAX_CODINGS];
  kv_meta meta[KV_MAX_META];
} kv_needs;

/* Lanes of a layer. */
static inline int kv_lane_count(const kv_needs *n, const kv_shape *s) {
  return n->lanes == QUERY_HEAD ? s->n_heads : s->n_kv_heads;
}

/* needs.changes with its default, 2. */
static inline int kv_needs_changes(const kv_needs *n) {
  return n->changes ? n->changes : 2;
}

/* Entries a page of the first meta with KV_PER_PAGE; 0: no such meta. */
static inline int kv_needs_page(const kv_needs *n) {
  for (int i = 0; i < n->metas; i++)
    if (n->meta[i].per == KV_PER_PAGE) return n->meta[i].page;
  return 0;
}

/* Bytes of workspace for every hook, enough for some arrays of floats, flags
 * and indexes over a lane. needs.work comes on top. */
#define KV_WORK(n_tokens) ((size_t)(n_tokens)*48 + 65536)

/* Bump allocator over memory taken at open. It is emptied before each hook, so
 * an allocation is valid until the hook returns. */
typedef struct kv_work {
  char *base;        /* owned by the backend's scratch */
  size_t size, used; /* bytes */
  /* NULL, or allocates instead: laws use it to watch what a hook takes. */
  void *(*take)(struct kv_work *w, size_t n);
} kv_work;

/* Returns n bytes, 64-byte aligned, not zeroed, valid until the hook returns.
 * Asserts that KV_WORK plus needs.work suffices. */
void *kv_work_take(kv_work *w, size_t n);
/* n elements of a type. */
#define KV_TAKE(w, type, n)                                                    \
  ((type *)kv_work_take((w), (size_t)(n) * sizeof(type)))

/* A message from a layer above (a lower number): the message of the nearest
 * layer above that published one at this block or step. */
typedef struct kv_message {
  int layer;        /* the layer that published it, in the model's numbers */
  const void *data; /* needs.message bytes, 16-byte aligned, for this hook */
} kv_message;

/* Where a hook is called. If two methods share a lane, each has its own part of
 * the lane's columns, formats and state. kv_column_int64, kv_column_float,
 * kv_coded and kv_own (ref/lane/lane.h) reach that part. */
typedef struct kv_at {
  /* prompt_len: end of the last prompt so far. A later prompt (--turns) raises
   * it before its tokens enter. */
  const kv_shape *shape;
  const kv_needs *needs;
  const void *params;  /* the method's own struct, as open left it */
  int layer;           /* the model's number */
  int step;            /* tokens seen, the current one included */
  const kv_rope *rope; /* the trace's, with needs.rope; else NULL */
  const struct kv_kernels *kernels; /* row kernels to compute with */
  kv_work *work;                    /* the hook's workspace */
  int column, coding; /* index of the method's first column and first coding
                         among the lane's */
  size_t state;       /* byte offset of its part of the lane's state (kv_own) */
  const kv_method *method; /* the table whose hook this is */
  const kv_tensor *asset;  /* [kv_method_tensors] of this layer, in the order of
                              the method's files and of their tables; zeroed if
                              its file was not read; NULL: no file was */
  const kv_message *above; /* with KV_DOWN; NULL: no layer above has published
                              at this block or step, as on the first layer */
} kv_at;

/* A view: ascending maximal runs of entry indexes, at least one entry. */
typedef struct kv_run {
  int32_t first, count;
} kv_run;

typedef struct kv_view {
  int runs, entries; /* how many runs; entries in all of them */
  kv_run *run;       /* [runs], capacity n/2 + 1 */
} kv_view;

/* One query head at a decode step. */
typedef struct kv_query {
  int head;              /* within the lane: 0..queries-1 */
  int queries;           /* query heads of the lane */
  const float *q;        /* [d] this head's query */
  const float *group_q;  /* [queries][d] queries of all heads of the lane */
  const float *s;        /* [n] logits by entry, with view_logits; else NULL */
  const kv_view *within; /* with needs.narrows: what the first method chose for
                            this head; NULL: all entries */
} kv_query;

/* Appends entries first..first+count-1, which must follow all earlier ones
 * (asserted); count <= 0 does nothing. Adjacent runs become one. */
void kv_view_add(kv_view *v, int first, int count);
/* Appends each entry i < n whose flag in[i] is true. */
void kv_view_mask(kv_view *v, int n, const bool *in);

/* The observation window, or a part of it, for the hook observe. Arrays that
 * the method did not want (needs.want) are NULL. Row r is the query of token
 * first + r; it sees the lane's first kv_rows_visible entries. A sliding window
 * (needs.slides) hides those that it has passed at that row: there p is 0 and s
 * undefined. */
typedef struct kv_rows {
  int first, rows;    /* token id of row 0; how many rows */
  int heads;          /* query heads of the lane */
  int places;         /* heads that a row has in memory (kv_rows_at) */
  int entries;        /* entries that the last row sees */
  size_t stride;      /* elements from one head's entries to the next's */
  const float *q;     /* [kv_rows_at][d] */
  const float *s, *p; /* [kv_rows_at][stride] logits and probabilities by entry,
                         undefined beyond the visible ones */
  const int64_t *sum; /* [heads][stride] sums over these rows, with KV_SUM */
} kv_rows;

/* Index of row r, query head h of the lane, in q, s and p. */
static inline size_t kv_rows_at(const kv_rows *rows, int r, int h) {
  return (size_t)r * (size_t)rows->places + (size_t)h;
}
/* How many entries row r sees: those up to its own token's. */
static inline int kv_rows_visible(const kv_rows *rows, int r) {
  return rows->entries - (rows->rows - 1 - r);
}

/* A named matrix that a method can show of a lane, as it is before a decode
 * step's view. Only `kvreplay vectors` uses it, so it may be slow. */
typedef struct kv_stage {
  const char *name; /* NULL ends a table */
  const char *rule; /* what defines it, in one sentence */
  /* Writes the shape for this lane and step, in elements of *type; rows 0:
   * there is no matrix here. */
  void (*size)(const kv_at *at, const kv_lane *lane, kv_dtype *type, int *rows,
               int *width);
  /* Writes out[rows][width]. */
  void (*copy)(const kv_at *at, const kv_lane *lane, void *out);
} kv_stage;

/* The table of a method. `kv_method_x` in ref/methods/x.c is the table of x. */
struct kv_method {
  int abi;                /* KV_METHOD_ABI of ref/lane/lane.h */
  int revision;           /* raised when its decisions or numbers change */
  const char *name;       /* as in a specification */
  const char *title;      /* one line */
  const char *paper;      /* "Zhang et al. 2023, TITLE, arXiv:2306.14048" or
                             OpenReview:NAME, further papers after "; ", or
                             "none: WHY"; the source of BibTeX */
  const kv_param *params; /* ends with name NULL */
  size_t params_size;     /* bytes of the method's params struct */
  /* Parameters (key=value:key=value) under which a budget of every token loses
   * nothing. The law "full" then demands dense's output to the bit, unless a
   * probability is below 2^-41. NULL: under any parameters; "": under none. */
  const char *lossless;
  /* Its budget is one for the whole model, which it spreads over the layers
   * itself: it takes no budget a layer. */
  bool spreads;
  /* Columns and metas are what the user declares, not what hooks hold: tables
   * mark such methods. */
  bool declares;
  /* Resolves unset parameters in place, checks them against each other
   * (KV_REFUSED with a sentence for a contradiction) and fills in needs. The
   * method's files have been read (kv_file). Called for each layer of the model
   * if layers have their own budgets. */
  kv_rc (*open)(const kv_shape *shape, void *params, kv_needs *needs,
                kv_err *e);
  /* At a decode step, layered codings decode rows that several layers hold
   * until all of these layers have attended. Returns the first of the layers
   * that share such rows with `layer`; NULL: no rows are shared. */
  int (*temporary_from)(const kv_shape *shape, const void *params, int layer);
  /* Hooks, listed in ref/lane/hooks.h; NULL: the method has none. */
  /* Runs in each lane after a block's or step's tokens entered. Entries from
   * index `first` on are new. */
  void (*arrive)(const kv_at *at, kv_lane *lane, int first);
  /* Decode, for each query head: appends what the head attends to, at least one
   * entry, to the empty `out`. NULL: all live entries. */
  void (*view)(const kv_at *at, const kv_lane *lane, const kv_query *q,
               kv_view *out);
  /* One chunk that attention adds after the chunks of the view
   * (ref/backend/attend.h), for tokens that have no entry. Writes its largest
   * logit *m, the sum *l of e^(logit - m) and the values a[d_v] weighted with
   * these. All are finite and l is from 2^-64 to 2^64, or the cell fails.
   * Returns whether there is one. Output and LSE include it; measures of mass
   * and the view's divergences cover entries alone. Decode steps only:
   * observation and a session's outputs of the prompt have none. */
  bool (*chunk)(const kv_at *at, const kv_lane *lane, const kv_query *q,
                float *m, float *l, float *a);
  /* Query rows of the prompt, as needs.prompt_rows says: in pieces with
   * ascending rows, or all sums at once if the trace has only sums. With
   * needs.decode_rows also the row of each decode step. */
  void (*observe)(const kv_at *at, kv_lane *lane, const kv_rows *rows);
  /* When a compression is due (needs.every): verbs on this lane; then verbs on
   * any lane[0..lanes) of the layer. */
  void (*compress_lane)(const kv_at *at, kv_lane *lane);
  void (*compress_layer)(const kv_at *at, kv_lane *const *lane, int lanes);
  /* With KV_DOWN, at the end of every block and step, after any compression:
   * fills in the zeroed message. Returns whether the layer publishes it. Layers
   * below have other lanes, so a message names entries by token ids. */
  bool (*publish)(const kv_at *at, const kv_lane *const *lane, int lanes,
                  void *message);
  const kv_stage *stages; /* ends with name NULL; or NULL */
  /* The wrapper, in tables that kv_method_around made; else NULL. */
  const struct kv_around *around;
};

/* The members that every table sets in the same way: rows of a params struct
 * `type`, and open. KV_METHOD_ABI is in ref/lane/lane.h. */
#define KV_METHOD_OF(rows, type, opens)                                        \
  .abi = KV_METHOD_ABI, .params = rows, .params_size = sizeof(type),           \
  .open = opens

/* Do decode steps need the logits of every live entry, in view or not? If not,
 * logits of entries out of view are undefined. */
static inline bool kv_needs_all_logits(const kv_needs *n, bool observes) {
  return n->view_logits || (observes && n->decode_rows && n->want & KV_LOGITS);
}

/* Is a compression due at the end of the block or step that ends at `step`? */
bool kv_compression_due(const kv_needs *n, const kv_shape *s, int step);

/* Built-in method number `index`, from 0, in the order of methods.mk; NULL past
 * the end. `-m all` runs these. */
const kv_method *kv_method_at(int index);
/* The same for methods that `-m all` leaves out because they need a file that
 * the user names (replay). */
const kv_method *kv_method_door_at(int index);
/* The i-th parameter that is a file, from 0; NULL past the last one. */
const kv_param *kv_method_file(const kv_method *m, int i);
/* How many tensors the method reads for a layer, from all its files. */
int kv_method_tensors(const kv_method *m);
/* Does the method run without the file of parameter p? *f is its value: the
 * word `none`, if p allows it, or no name was given. */
bool kv_file_is_none(const kv_param *p, const kv_file *f);
/* Does it run without the file when none is named (KV_FILE_OPTIONAL)? */
bool kv_file_optional(const kv_param *p);
/* Does it run only on backend ref? True for methods marked ref-only in
 * methods.mk, methods in neither list, and compositions with such a part. */
bool kv_method_ref_only(const kv_method *m);
/* The method of that name in either list, or NULL. */
const kv_method *kv_method_named(const char *name);
#endif
