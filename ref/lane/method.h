/* SPDX-License-Identifier: Apache-2.0
 *
 * A method is one const table. `open` may fail and decides everything; the
 * hooks after it return no error, allocate nothing, leave the floating-point
 * mode as it is (ref/ground/float.h) and change memory only through the verbs
 * of ref/lane/lane.h. Which hook runs when follows from kv_needs and from which
 * hooks the table has: the engine has no branch on a method.
 *
 * For each block or step of a layer the engine does, in each lane: append;
 * arrive; (decode) view, chunk and attend; observe on the rows asked for; if
 * due, compress_lane. Then, of the whole layer: if due, compress_layer; then
 * publish. A lane hook touches its lane only, so lanes run in parallel.
 */
#ifndef KV_REF_METHOD_H
#define KV_REF_METHOD_H

#include "ref/formats/format.h"
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
  KV_MAX_CLASSES = 4, /* as many as the ledger has kinds tier_0 .. */
  KV_MAX_CODINGS = 8,
  KV_MAX_META = 4
};

/* What rows carry (kv_needs.want, a set); nothing else is computed. */
enum {
  KV_Q = 1,   /* queries */
  KV_S = 2,   /* logits, arithmetic 1: scaled, under the model's cap, biased */
  KV_P = 4,   /* probabilities, arithmetic 4 */
  KV_SUM = 8, /* per query head and entry: sum over the rows of RN(P*2^40) */
  KV_LOGITS = KV_S | KV_P | KV_SUM /* all that is made of logits */
};

/* What layers know of each other. */
typedef enum kv_across {
  KV_ALONE, /* nothing */
  KV_DOWN   /* at each block or step a layer may publish a message for the
               layers below it, those of higher numbers: the hook publish, and
               kv_at.above */
} kv_across;

/* What a layer has a lane for: each KV head, or each query head. */
typedef enum kv_lanes { KV_HEAD, QUERY_HEAD } kv_lanes;
/* The type of a column's numbers, int64_t or float, and their bytes. */
typedef enum kv_column { KV_INT64, KV_FLOAT } kv_column;
static inline int kv_column_size(kv_column c) { return c == KV_INT64 ? 8 : 4; }

/* Memory that a method holds beside entries and columns, and how much of it a
 * decode step looks at in order to choose what attention reads: the ledger's
 * `scanned`, once a lane, as bounds that several query heads share are fetched
 * once. Logits that view is given (view_logits) are no entry of this table: the
 * engine charges every key of the lane for them by itself. */
typedef enum kv_meta_per {
  KV_PER_LANE,  /* each lane */
  KV_PER_ENTRY, /* each live entry */
  KV_PER_PAGE   /* each started run of `page` live entries */
} kv_meta_per;

typedef struct kv_meta {
  const char *name; /* for people: "page bounds" */
  kv_meta_per per;
  int page;       /* entries a page, of KV_PER_PAGE */
  size_t bytes;   /* held for each lane, entry or page */
  size_t scanned; /* of these looked at in a decode step, by methods with a
                     view; in no layer below from_layer (the model's number),
                     and in no lane of at most `above` entries: there the
                     method views every entry */
  int from_layer, above;
  int most; /* entries or pages looked at by a lane at most; 0: all. A method
               that narrows looks at what it is given: of two on a lane it is
               what the first's needs say (viewed), for each query head */
} kv_meta;

/* What a method asks of the engine. Filled in once by open, from shape and
 * parameters; zeroed before. A new field is a line of ref/lane/needs.c, too. */
typedef struct kv_needs {
  int block;        /* most prompt tokens that enter at once; 0 = all */
  int prompt_rows;  /* last prompt queries shown to observe; of a prompt that
                       is read in chunks at the end of each (chunk.h) */
  bool decode_rows; /* show observe every decode step */
  unsigned want;    /* what the rows carry: KV_Q | KV_S | KV_P | KV_SUM */
  bool narrows;     /* of two methods on a lane the second: its view chooses
                       among what the first's view holds (kv_query.within) */
  int viewed;       /* most entries in a view of a query head, but where it
                       holds all of the lane; 0: no bound is known */
  bool view_logits; /* view is given the logits of all live entries */
  int columns;      /* numbers per entry that travel with it */
  kv_column column[KV_MAX_COLUMNS];
  int every, phase; /* a compression is due after every prompt block when block
                       != 0, after the last prompt block always, and when every
                       != 0 and (step - prompt_len - phase) % every == 0 */
  bool merges;      /* uses the verb merge: entries carry weights */
  kv_means merged;  /* .. and what is merged is stored so */
  float merge_bias; /* logit += merge_bias * ln(weight) */
  int classes;      /* an entry is of class 0 .. classes - 1, 0 when it enters;
                       the verb retier changes it. 0 or 1: it has none, and
                       nothing is stored or charged for it */
  unsigned unread;  /* classes, bit c for class c, that no view holds, and views
                       hold all the others: a view follows from what retier
                       said and writes no record. The class is then no byte of
                       an entry: what the method holds of it is in `meta` */
  unsigned host;    /* classes, bit c for class c, whose entries lie in the
                       host's memory: what a decode step reads of them is
                       fetched from there first (the ledger's `fetched`), once
                       for all query heads of a lane */
  bool reindex;     /* entry i is attended at p0 + i (ref/ground/places.h) */
  bool rope;        /* hooks read kv_at.rope, or a coding is pre_rope: the
                       trace must hold frequencies */
  int ahead;        /* with rope: the mean rotation by 1 .. ahead positions is
                       row n_tokens of the turns */
  kv_lanes lanes;   /* a lane for each KV head, or for each query head */
  kv_across across; /* what layers know of each other */
  size_t message;   /* bytes of a message, of KV_DOWN; else 0 */
  int changes;      /* how often the verbs of one block or step name an entry
                       at most, keep aside; 0: 2. The room for their records,
                       and on a device for rewritten rows, follows from it */
  size_t lane_state; /* bytes a lane, zeroed; kv_own */
  size_t work;       /* bytes of workspace beyond KV_WORK(n_tokens) */
  bool slides;       /* entries may leave at the front of a lane by no verb of
                        the method, as a layer's sliding window moves past them
                        (kv_plan.slides): what it holds of an entry stands in
                        columns, in the rows below, or nowhere, and an entry
                        that enters after a drop means what it did before;
                        where it is shown logits its verbs leave entries in the
                        order of their tokens */
  int slid;     /* with slides: so many rows of n_tokens numbers of 8 bytes,
                   a number an entry, at the beginning of lane_state, which
                   move with the entries */
  bool chunks;  /* a prompt may be read in chunks (kv_shape.chunk): the view
                   serves its rows, too */
  bool future;  /* compressions read kv_lane.future: what exact mass each token
                   gets from future decode rows. For baselines only: no method
                   can know it. A session, where rows come one by one,
                   refuses it */
  bool lengths; /* bytes stored at each step follow from lengths and
                   parameters alone: a search for the budget that takes so
                   many bytes reads no queries */
  int metas;    /* what else the method holds, in `meta`: charged as `side` */
  int codings; /* formats that recode may name, in `coding`: KV_CODED + index */
  int tiers;   /* pairs of formats, of K and V, that entries may have, where
                  the method says so; 0: coding i of K goes with that of V */
  kv_coding coding[KV_MAX_CODINGS];
  kv_meta meta[KV_MAX_META];
} kv_needs;

/* Lanes of a layer: one for each KV head, or for each query head. */
static inline int kv_lane_count(const kv_needs *n, const kv_shape *s) {
  return n->lanes == QUERY_HEAD ? s->n_heads : s->n_kv_heads;
}

/* needs.changes with its default, 2. */
static inline int kv_needs_changes(const kv_needs *n) {
  return n->changes ? n->changes : 2;
}

/* Entries a page of the first meta that is held for each page; 0: none is. */
static inline int kv_needs_page(const kv_needs *n) {
  for (int i = 0; i < n->metas; i++)
    if (n->meta[i].per == KV_PER_PAGE) return n->meta[i].page;
  return 0;
}

/* Bytes of workspace of every hook: floats, flags and indexes over a lane.
 * needs.work is what a method takes beyond that. */
#define KV_WORK(n_tokens) ((size_t)(n_tokens)*48 + 65536)

/* Bump allocator over memory taken at open. What one hook took is gone when the
 * next one begins. */
typedef struct kv_work {
  char *base;        /* owned by the backend's scratch */
  size_t size, used; /* bytes */
  void *(*take)(struct kv_work *w, size_t n); /* allocates instead, where laws
                                                 watch what is taken; or NULL */
} kv_work;

/* n bytes, 64-byte aligned, not zeroed, good until the hook returns; asserts
 * that KV_WORK and needs.work leave room. */
void *kv_work_take(kv_work *w, size_t n);
/* n elements of a type. */
#define KV_TAKE(w, type, n)                                                    \
  ((type *)kv_work_take((w), (size_t)(n) * sizeof(type)))

/* A message of a layer above, at the block or step of the hook that reads it:
 * what the layer next above published then or, where that one published
 * nothing, the next above it that did. */
typedef struct kv_message {
  int layer;        /* that published it: the model's number */
  const void *data; /* needs.message bytes, 16-byte aligned; good within the
                       hook */
} kv_message;

/* Where a hook is called. Of two methods on one lane each has its own part of
 * the lane's columns, formats and state; it reaches them by kv_column_int64,
 * kv_column_float, kv_coded and kv_own (ref/lane/lane.h), which add where its
 * part begins. */
typedef struct kv_at {
  const kv_shape *shape; /* its prompt_len: where the last prompt ends. A later
                            one (--turns) moves it, before its tokens enter */
  const kv_needs *needs;
  const void *params;  /* the method's own struct, resolved by open */
  int layer;           /* the model's number */
  int step;            /* tokens seen, the current one included */
  const kv_rope *rope; /* of the trace, where needs.rope; else NULL */
  const struct kv_kernels *kernels; /* row kernels to compute with */
  kv_work *work;                    /* the hook's workspace */
  int column, coding; /* index, among the lane's, of the first of its own */
  size_t state;       /* bytes of the lane's state before its own (kv_own) */
  const kv_method *method; /* the table whose hook this is */
  const kv_tensor *asset;  /* [kv_method_tensors] of this layer, as the tables
                              of the method's files ask for them, one file
                              after another; zeroed of a file that was not
                              read; NULL: none was */
  const kv_message *above; /* of KV_DOWN; NULL: no layer above has published
                              at this block or step, as on the first layer */
} kv_at;

/* A view: ascending maximal runs of entry indexes, at least one entry. */
typedef struct kv_run {
  int32_t first, count;
} kv_run;

typedef struct kv_view {
  int runs, entries; /* how many runs; entries in all of them */
  kv_run *run;       /* [runs], room for n/2 + 1 */
} kv_view;

/* One query head at a decode step. */
typedef struct kv_query {
  int head;              /* within the lane: 0..queries-1 */
  int queries;           /* query heads of the lane */
  const float *q;        /* [d] */
  const float *group_q;  /* [queries][d]: of all query heads of the lane */
  const float *s;        /* [n] logits by entry, where view_logits; else NULL */
  const kv_view *within; /* where needs.narrows: what the method before chose
                            for this head; NULL: there is none, all entries */
} kv_query;

/* Appends entries first..first+count-1, above all before (asserted); count <= 0
 * does nothing. Runs that touch become one. */
void kv_view_add(kv_view *v, int first, int count);
/* Appends the entries i < n whose flag in[i] is true. */
void kv_view_mask(kv_view *v, int n, const bool *in);

/* The observation window, or a part of it, for the hook observe: query rows
 * with what the method asked for (needs.want), the rest NULL. Row r is the
 * query of token first + r and sees the lane's first kv_rows_visible entries.
 * Of these a layer's sliding window (needs.slides) hides those that it has
 * passed at that row: p is 0 there, and s is undefined. */
typedef struct kv_rows {
  int first, rows;    /* token id of row 0; how many rows */
  int heads;          /* query heads of the lane */
  int places;         /* heads that a row has in memory, for kv_rows_at */
  int entries;        /* seen by the last row */
  size_t stride;      /* elements from one head's entries to the next's */
  const float *q;     /* [kv_rows_at][d] */
  const float *s, *p; /* [kv_rows_at][stride] logits and probabilities by entry;
                         undefined beyond the visible ones */
  const int64_t *sum; /* [heads][stride] over these rows, KV_SUM */
} kv_rows;

/* Index of row r, query head h, of the lane in q, s and p. */
static inline size_t kv_rows_at(const kv_rows *rows, int r, int h) {
  return (size_t)r * (size_t)rows->places + (size_t)h;
}
/* How many entries row r sees: those of its own token and before. */
static inline int kv_rows_visible(const kv_rows *rows, int r) {
  return rows->entries - (rows->rows - 1 - r);
}

/* A matrix of a lane, by name, that a method lets people look at beside what
 * every method has, as it is before a decode step's view. `kvreplay vectors`
 * writes it; nothing else asks, so it may cost what it likes. */
typedef struct kv_stage {
  const char *name; /* NULL ends a table */
  const char *rule; /* what defines it, in one sentence */
  /* Its shape for this lane and step, elements of `type`; rows 0: there is none
   * here. */
  void (*size)(const kv_at *at, const kv_lane *lane, kv_dtype *type, int *rows,
               int *width);
  /* Writes out[rows][width]. */
  void (*copy)(const kv_at *at, const kv_lane *lane, void *out);
} kv_stage;

/* The table of a method; `kv_method_x` in ref/methods/x.c is that of x. */
struct kv_method {
  int abi;                /* KV_METHOD_ABI of ref/lane/lane.h */
  int revision;           /* raised when its decisions or numbers change */
  const char *name;       /* as in a specification */
  const char *title;      /* one line */
  const char *paper;      /* "Zhang et al. 2023, TITLE, arXiv:2306.14048"
                             or OpenReview:NAME, more behind "; ", or
                             "none: WHY": BibTeX comes of it */
  const kv_param *params; /* ends with name NULL */
  size_t params_size;     /* bytes of the struct that offsets refer to */
  /* Parameters, as in a specification (key=value:key=value), with which a
   * budget of every token loses nothing: the law "full" demands the output
   * of dense to the bit, where no probability is below 2^-41. NULL: any
   * parameters; "": none. */
  const char *lossless;
  /* Its budget is one for the model, which it spreads over the layers itself:
   * it takes no budget a layer. */
  bool spreads;
  /* Columns and metas are what the user says, not what hooks hold: tables
   * tell them apart. */
  bool declares;
  /* Resolves unset parameters in place, checks them against each other
   * (KV_REFUSED with a sentence for a contradiction) and fills needs. Where
   * the method has files, they have been read (kv_file). Called for each layer
   * of the model where layers have budgets of their own. */
  kv_rc (*open)(const kv_shape *shape, void *params, kv_needs *needs,
                kv_err *e);
  /* Of layers that hold the rows that a step makes of layered codings until
   * all of them have attended, the number of the first; NULL: none does. */
  int (*temporary_from)(const kv_shape *shape, const void *params, int layer);
  /* Hooks, listed in ref/lane/hooks.h; NULL: the method has none. */
  /* Of each lane, when a block's or a step's tokens have entered: entries from
   * index `first` on are new. */
  void (*arrive)(const kv_at *at, kv_lane *lane, int first);
  /* Decode, for each query head: appends what the head attends to, at least one
   * entry, to the empty `out`. NULL: all live entries. */
  void (*view)(const kv_at *at, const kv_lane *lane, const kv_query *q,
               kv_view *out);
  /* One chunk that attention adds after those of the view
   * (ref/backend/attend.h): what the method knows of tokens that have no entry.
   * Its largest logit *m, the sum *l of e^(logit - m) and the values a[d_v]
   * weighed with these, all finite and l from 2^-64 to 2^64, or the cell fails.
   * Returns whether there is one. Output and LSE hold it; measures of mass and
   * the view's divergences speak of entries alone, as without it. Decode steps
   * only: observation and a session's outputs of the prompt have none. */
  bool (*chunk)(const kv_at *at, const kv_lane *lane, const kv_query *q,
                float *m, float *l, float *a);
  /* Query rows of the prompt, as needs.prompt_rows asks, in pieces with rows
   * ascending, or the sums of all at once where the trace has those alone; and
   * where needs.decode_rows each decode step's row. */
  void (*observe)(const kv_at *at, kv_lane *lane, const kv_rows *rows);
  /* Where a compression is due (needs.every): verbs on this lane; then, of all
   * lane[0..lanes) of the layer, verbs on any of them. */
  void (*compress_lane)(const kv_at *at, kv_lane *lane);
  void (*compress_layer)(const kv_at *at, kv_lane *const *lane, int lanes);
  /* Of KV_DOWN, at the end of every block and step, when what was due has
   * compressed: fills in the zeroed message. Returns whether the layer
   * publishes it. What hooks of the layers below read of it stands in no lane
   * of theirs: entries are named by token ids. */
  bool (*publish)(const kv_at *at, const kv_lane *const *lane, int lanes,
                  void *message);
  const kv_stage *stages; /* ends with name NULL; or NULL */
  /* The wrapper, in tables made by kv_method_around; else NULL. */
  const struct kv_around *around;
};

/* What every table has in the same words: its parameters, rows of a struct, and
 * its open. KV_METHOD_ABI is that of ref/lane/lane.h. */
#define KV_METHOD_OF(rows, type, opens)                                        \
  .abi = KV_METHOD_ABI, .params = rows, .params_size = sizeof(type),           \
  .open = opens

/* Do decode steps need the logits of every live entry, in view or not? Where
 * nobody is shown them, what lies out of view may be anything. */
static inline bool kv_needs_all_logits(const kv_needs *n, bool observes) {
  return n->view_logits || (observes && n->decode_rows && n->want & KV_LOGITS);
}

/* Is a compression due at the end of the block or step that ends at `step`
 * tokens seen? */
bool kv_compression_due(const kv_needs *n, const kv_shape *s, int step);

/* The index-th of the built-in methods, in the order of methods.mk, which `-m
 * all` runs; NULL past the end. */
const kv_method *kv_method_at(int index);
/* The same of those that no list of all methods holds, as they need a file that
 * the user names (replay). */
const kv_method *kv_method_door_at(int index);
/* The i-th parameter that is a file, i from 0 on; NULL past the last one. */
const kv_param *kv_method_file(const kv_method *m, int i);
/* How many tensors the method asks for, of all its files. */
int kv_method_tensors(const kv_method *m);
/* Of a file parameter p, whose value is *f: does the method run without that
 * file, by the word `none`, which p allows, or as nobody names one? */
bool kv_file_is_none(const kv_param *p, const kv_file *f);
/* Does it run without the file where nobody names one (KV_FILE_OPTIONAL)? */
bool kv_file_optional(const kv_param *p);
/* Does it run on backend ref alone? Methods that methods.mk marks ref-only,
 * whatever is in neither list, and a composition of which either part does. */
bool kv_method_ref_only(const kv_method *m);
/* The method of that name in either list; NULL: there is none. */
const kv_method *kv_method_named(const char *name);

#endif
