/* SPDX-License-Identifier: Apache-2.0
 *
 * A method is one const table. `open` may fail and decides everything; the
 * hooks after it return void, allocate nothing and change memory only through
 * the verbs of ref/lane.h. Which hook runs when is data in kv_needs: the
 * engine has no branch on a method.
 *
 * For each block of tokens, for each layer, the engine does: append; arrive;
 * (decode) view and attend; observe on the rows asked for; if due, settle_lane
 * for every lane, then settle_layer. A lane hook touches its lane only, so
 * lanes run in parallel.
 */
#ifndef KV_REF_METHOD_H
#define KV_REF_METHOD_H

#include "ref/err.h"
#include "ref/format.h"
#include "ref/shape.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct kv_lane kv_lane;
struct kv_kernels;

enum {
  KV_ALL_ROWS = 1 << 30, /* prompt_rows: every prompt query */
  KV_MAX_COLUMNS = 2,
  KV_MAX_CODINGS = 2
};

/* What rows carry; nothing else is computed. */
enum {
  KV_Q = 1,  /* queries */
  KV_S = 2,  /* scaled (and biased) logits */
  KV_P = 4,  /* probabilities, arithmetic 4 */
  KV_SUM = 8 /* per query head and entry: sum over the rows of RN(P*2^40) */
};

typedef enum kv_lanes { KV_HEAD, QUERY_HEAD } kv_lanes;
typedef enum kv_column { KV_INT64, KV_FLOAT } kv_column;

/* Filled once by open, from shape and parameters; zeroed before. */
typedef struct kv_needs {
  int block;        /* most prompt tokens that enter at once; 0 = all */
  int prompt_rows;  /* last prompt queries shown to observe */
  bool decode_rows; /* show observe every decode step */
  unsigned want;    /* KV_Q | KV_S | KV_P | KV_SUM */
  bool view_logits; /* view is given the logits of all live entries */
  int columns;      /* numbers per entry that travel with it */
  kv_column column[KV_MAX_COLUMNS];
  int every, phase; /* a settling is due after every prompt block when block
                       != 0, after the last prompt block always, and at a
                       decode step when every != 0 and
                       (step - prompt_len - phase) % every == 0 */
  bool merges;      /* uses the verb merge: entries carry weights */
  float merge_bias; /* logit += merge_bias * ln(weight) */
  bool reindex;     /* the i-th entry is attended at position p0 + i */
  kv_lanes lanes;
  int codings; /* formats that recode may name: KV_CODED + index */
  kv_coding coding[KV_MAX_CODINGS];
  size_t lane_state; /* bytes a lane, zeroed; kv_lane_own */
  size_t lane_meta;  /* bytes charged to each lane as `side` */
  int page;          /* and, for each started run of `page` live entries, */
  size_t page_meta;  /* this many bytes (page bounds) */
  size_t work;       /* bytes of workspace beyond KV_WORK(n_tokens) */
  bool lengths;      /* what is stored at each step, in bytes, follows from
                        lengths and parameters alone: the search for a budget in
                        bytes computes no scores */
} kv_needs;

/* Workspace of every hook: floats, flags and indexes over a lane. */
#define KV_WORK(n_tokens) ((size_t)(n_tokens)*48 + 65536)

/* Bump allocator over memory taken at open; emptied before each hook. */
typedef struct kv_work {
  char *base;
  size_t size, used;
} kv_work;

/* n bytes, 64-byte aligned, not zeroed; asserts that they were asked for. */
void *kv_work_take(kv_work *w, size_t n);
#define KV_TAKE(w, type, n)                                                    \
  ((type *)kv_work_take((w), (size_t)(n) * sizeof(type)))

/* Where a hook is called. */
typedef struct kv_at {
  const kv_shape *shape;
  const kv_needs *needs;
  const void *params; /* the method's own struct, resolved by open */
  int layer;          /* the model's number */
  int step;           /* tokens seen, the current one included */
  const struct kv_kernels *kernels;
  kv_work *work;
} kv_at;

/* One query head at a decode step. */
typedef struct kv_query {
  int head;             /* within the lane: 0..queries-1 */
  int queries;          /* query heads of the lane */
  const float *q;       /* [d] */
  const float *group_q; /* [queries][d]: of all query heads of the lane */
  const float *s;       /* [n] logits by entry, where view_logits; else NULL */
} kv_query;

/* A view: ascending maximal runs of entry indexes, at least one entry. */
typedef struct kv_run {
  int32_t first, count;
} kv_run;

typedef struct kv_view {
  int runs, entries;
  kv_run *run; /* room for n/2 + 1 */
} kv_view;

/* Appends entries first..first+count-1, above all before. */
void kv_view_add(kv_view *v, int first, int count);
/* The entries whose flag is set. */
void kv_view_mask(kv_view *v, int n, const bool *in);

/* Query rows with what the method asked for. Row r is token first + r and
 * sees the lane's first kv_rows_visible entries. q, s and p of row r and head
 * h stand at place kv_rows_at(rows, r, h), d or `stride` floats each; sum of
 * head h at h * stride. */
typedef struct kv_rows {
  int first, rows;
  int heads;   /* query heads of the lane */
  int places;  /* heads that a row has in memory */
  int entries; /* seen by the last row */
  size_t stride;
  const float *q;
  const float *s, *p; /* beyond the visible entries: junk */
  const int64_t *sum; /* over these rows */
} kv_rows;

static inline size_t kv_rows_at(const kv_rows *rows, int r, int h) {
  return (size_t)r * (size_t)rows->places + (size_t)h;
}
static inline int kv_rows_visible(const kv_rows *rows, int r) {
  return rows->entries - (rows->rows - 1 - r);
}

/* Values of a parameter. KV_UNSET marks an integer that open resolves. */
enum { KV_UNSET = INT32_MIN };
typedef enum kv_kind {
  KV_INT,    /* int */
  KV_REAL,   /* float: the nearest to the decimal */
  KV_SHARE,  /* int32_t: the nearest multiple of 2^-20 */
  KV_CHOICE, /* int: index into choices */
  KV_TEXT    /* char[KV_TEXT_MAX] */
} kv_kind;
enum { KV_TEXT_MAX = 1024 };

typedef struct kv_param {
  const char *name;
  kv_kind kind;
  size_t offset;        /* in the method's params struct */
  const char *fallback; /* default, through the user's parser; NULL: open
                           resolves it from the budget */
  double min, max;      /* inclusive; KV_INT, KV_REAL, KV_SHARE */
  const char *choices;  /* "mean|max|sum" */
  const char *unit;
  const char *help; /* one line, with the source of the default */
} kv_param;

/* A value of a lane, beyond those of every method, that is worth a look at a
 * step's attention: a matrix by name. `kvreplay vectors` writes it; nothing
 * else asks, so it may cost what it likes. */
typedef struct kv_stage {
  const char *name; /* NULL ends a table */
  const char *rule; /* what defines it, in one sentence */
  void (*size)(const kv_at *at, const kv_lane *lane, kv_dtype *type, int *rows,
               int *width); /* rows 0: there is none here */
  void (*copy)(const kv_at *at, const kv_lane *lane, void *out);
} kv_stage;

typedef struct kv_method {
  int abi;                /* KV_METHOD_ABI of ref/lane.h */
  int revision;           /* raised when its decisions or numbers change */
  const char *name;       /* as in a specification */
  const char *title;      /* one line */
  const char *paper;      /* authors, year, where */
  const kv_param *params; /* ends with name NULL */
  size_t params_size;     /* bytes of the struct that offsets refer to */
  /* Parameters, as in a specification (key=value:key=value), with which a
   * budget of every token loses nothing: the law "full" demands the output
   * of dense to the bit, where no probability is below 2^-41. NULL: any
   * parameters. */
  const char *lossless;
  /* Of a method that follows decisions: where in its params stands the
   * const kv_decisions * that the engine reads from the parameter `file`
   * before open; 0: none. */
  size_t decisions;
  /* Resolves unset parameters in place, checks them against each other
   * (KV_REFUSED with a sentence for a contradiction) and fills needs. */
  kv_rc (*open)(const kv_shape *shape, void *params, kv_needs *needs,
                kv_err *e);
  /* All optional. */
  void (*arrive)(const kv_at *at, kv_lane *lane, int first);
  void (*view)(const kv_at *at, const kv_lane *lane, const kv_query *q,
               kv_view *out); /* absent: all live entries */
  void (*observe)(const kv_at *at, kv_lane *lane, const kv_rows *rows);
  void (*settle_lane)(const kv_at *at, kv_lane *lane);
  void (*settle_layer)(const kv_at *at, kv_lane *const *lane, int lanes);
  const kv_stage *stages; /* ends with name NULL */
} kv_method;

/* Is a settling due at the end of the block that makes `step` tokens seen? */
bool kv_settling_due(const kv_needs *n, const kv_shape *s, int step);

/* The one list of methods, in the order of methods.mk; NULL past the end. */
const kv_method *kv_method_at(int index);
/* Methods that need a file of the user's, by the same rule: no list of all
 * methods holds them. */
const kv_method *kv_method_door_at(int index);
/* Does it run on backend ref alone? Methods that methods.mk marks ref-only,
 * and whatever is in no list. */
bool kv_method_ref_only(const kv_method *m);
/* By name, in either; NULL if there is none. */
const kv_method *kv_method_named(const char *name);

#endif
