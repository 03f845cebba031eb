/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of results: what one cell (a trace, a method with all its parameters,
 * a budget) gave. Filled in by the engine (kv_cell_finish) or from a database;
 * written by the JSON, table and database writers. Plain data; kv_result_free
 * releases the arrays. Unless a comment says otherwise, numbers are bytes,
 * "step" is a number of tokens seen, and digests are SHA-256.
 */
#ifndef KV_SIM_RESULT_H
#define KV_SIM_RESULT_H

#include "ref/ground/sha256.h"
#include "ref/lane/ledger.h"
#include "sim/ask/budget.h"
#include "sim/ask/observe.h"
#include "sim/replay/measure/measure.h"
#include <stdbool.h>

typedef enum kv_status {
  KV_CELL_OK,
  KV_CELL_FIXED,   /* the method has no budget, or its own: run once */
  KV_CELL_REFUSED, /* cannot run with these options; `reason` says why */
  KV_CELL_FAILED   /* could not continue, as after a NaN; `reason` says where */
} kv_status;

extern const char *const kv_status_names[4]; /* ok fixed refused failed */

typedef struct kv_totals {
  kv_bytes end;             /* held at the last step, after compression */
  int64_t codes_end;        /* the payload of these: K and V */
  double mean, codes_mean;  /* over the steps from prompt_len to the last, after
                               compression */
  int64_t peak, codes_peak; /* the most held, also before compression */
  int64_t mti;              /* memory-time integral, in byte steps: bytes held,
                               summed over the same steps */
  double read;              /* read per decode step */
  double scanned;           /* per decode step, to choose what is read */
  int64_t asset;            /* tensors of the method's files, once for all
                               requests and so not part of the cache; 0: it
                               reads no file */
  int64_t fetched;          /* of the bytes read, those in host memory, summed
                               over decode steps */
  int64_t moved;            /* rewritten by verbs */
  int64_t verbs;            /* records of verbs, a count */
  double kr;                /* mean of bytes / dense bytes */
  double cr;                /* entries attended / dense, over query heads */
  double kept;              /* entries at the end, mean over lanes */
  int kept_min, kept_max;   /* over lanes, at the end */
  double attended;          /* mean entries per query head and decode step */
  double needle_kept, needle_worst; /* dense's attention on the needles that is
                                       kept, of all lanes and of the worst tenth
                                       (kv_kept_share, kv_kept_worst); NaN: not
                                       measured */
} kv_totals;

/* --- the numbers of a run as a table ------------------------------------- */

typedef enum kv_scalar_type {
  KV_SCALAR_WHOLE, /* int64_t, >= 0; -1: missing */
  KV_SCALAR_INT,   /* int, the same */
  KV_SCALAR_REAL   /* double; NaN: missing */
} kv_scalar_type;

typedef enum kv_scalar_combine {
  KV_COMBINE_EXACT, /* sums and extremes over layers and lanes of integers;
                       comparisons of two ledgers use these */
  KV_COMBINE_STEPS  /* follows from bytes of steps or from views, which are
                       compared */
} kv_scalar_combine;

/* A number of kv_totals. Code that stores, compares or lists numbers walks this
 * table, in its order; `end` is not in it. A new one is a member and a row. */
typedef struct kv_scalar {
  const char *name; /* as in rows: "bytes.peak"; in the database, too */
  const char *unit; /* for people */
  size_t offset;    /* bytes into kv_totals */
  kv_scalar_type type;
  kv_scalar_combine combine;
} kv_scalar;

extern const kv_scalar kv_scalars[]; /* [kv_n_scalars] */
extern const int kv_n_scalars;

/* The number to show; NaN: missing. */
double kv_scalar_get(const kv_totals *t, const kv_scalar *s);
/* Its 64 bits, for storing and comparing: a whole number, or the bits of a
 * double, with one pattern for all NaN. kv_scalar_set does the reverse. */
int64_t kv_scalar_bits(const kv_totals *t, const kv_scalar *s);
void kv_scalar_set(kv_totals *t, const kv_scalar *s, int64_t bits);

/* --- parts of a row ------------------------------------------------------ */

/* Aggregates of a part: a layer, a KV head of a layer, or a bin of steps. */
typedef struct kv_part {
  int layer, head, bin;      /* the model's layer; -1 if it does not apply */
  int first_step, last_step; /* of its decode steps */
  double kept;               /* entries at the end, mean over its lanes */
  double drift; /* lse_error summed over its steps, mean over its query heads */
  kv_stat stat[KV_MEASURES];
} kv_part;

typedef struct kv_layer_result {
  int layer;         /* its number in the model */
  kv_digest journal; /* every verb and view */
  kv_digest state;   /* what the lanes hold at the end */
  kv_digest output;  /* of every decode step */
  kv_digest scores;  /* of scores that selections ranked, if has_scores */
} kv_layer_result;

typedef struct kv_step_cost { /* sum over layers, after compression */
  int step;
  int64_t bytes, codes;  /* held; the payload of these */
  int64_t read, scanned; /* by this step, as in kv_totals */
} kv_step_cost;

/* One memory layout (sim/replay/layout/layout.h). Bytes are K and V alone, like
 * the ledger's payload; other kinds of the ledger are the same in every layout.
 * Means and ends as in kv_totals, after compression; peaks also before it. */
typedef struct kv_layout_step {
  int step;
  int64_t pages, bytes, slack; /* held; slack: bytes beyond the payload */
  int64_t vacated, freed;      /* since the beginning, see below */
} kv_layout_step;

/* Numbers of a layout with a page table for each lane. */
typedef struct kv_layout_table_result {
  int64_t there;                   /* 0 or 1: it is such a layout */
  int64_t unused_end, unused_peak; /* bytes of pages that hold no row */
  int64_t moved;                   /* entries that changed their tier */
  int64_t entries;                 /* of the page tables */
  int64_t operations; /* page ids read from and written to the free list */
} kv_layout_table_result;

/* Numbers of a layout of regular indices (sim/replay/layout/regular.h). Slots,
 * entries and loads are summed over all lanes of all layers. */
typedef struct kv_layout_regular_result {
  int64_t there;      /* 0 or 1: it is such a layout */
  int64_t lanes;      /* of all layers together */
  int64_t loads;      /* slots that decode steps load, summed */
  int64_t rewrites;   /* blocks after which the indices of some layer changed */
  int64_t rewritten;  /* tokens seen at the first rewrite; -1: none */
  int64_t moves;      /* slots that rewrites fill */
  int64_t moved;      /* bytes of these */
  int64_t mask_end;   /* bytes of masks, part of the layout's bytes */
  int64_t mti;        /* bytes held, summed over the row's steps */
  int64_t kept;       /* entries that lanes hold, summed over these steps */
  int64_t fullest;    /* entries of the longest lane, summed over these steps */
  int64_t break_even; /* decode steps until the rewritten store's memory-time
                         integral is no more than the masked store's; -1: never
                         */
} kv_layout_regular_result;

typedef struct kv_layout_result {
  char name[32];                 /* "pages:16:layer" */
  int64_t pages_end, pages_peak; /* of K and V together; with slots and regular
                                    indices: rows */
  double pages_mean;
  int64_t end, peak; /* bytes in them */
  double mean;
  int64_t slack_end, slack_peak; /* peak of slack, after compression */
  double slack_mean;
  int64_t vacated; /* bytes of rows dropped, merged or recoded */
  int64_t freed; /* of these, bytes in pages that became free and stayed free */
  /* Bytes of the tables that say where rows are, part of no other number; -1:
   * regular indices. */
  int64_t map_end, map_peak;
  kv_layout_table_result tables;
  kv_layout_regular_result regular;
  int n_steps; /* as many as the row has */
  kv_layout_step *step;
} kv_layout_result;

/* What a request does if a pool lacks memory for it: it leaves; it waits; or it
 * waits at the start until there is memory at each of its steps, for it and for
 * all admitted requests. */
typedef enum kv_pool_wait {
  KV_POOL_LEAVE,
  KV_POOL_WAIT,
  KV_POOL_STAY
} kv_pool_wait;

/* A pool shared by requests (sim/run/look/together.h): of unified pages, or of
 * bytes; a byte then counts as a page here. Steps are the pool's. */
typedef struct kv_pool_result {
  char layout[32];            /* its name, as in kv_layout_result */
  int64_t bytes, page, pages; /* of the pool; of a page; pages of the pool */
  char arrive[32]; /* how requests arrive: "every", "poisson:SEED" or "file" */
  int64_t every, requests; /* steps between two arrivals; how many requests */
  int64_t steps;           /* steps in which any request was in the pool */
  int64_t wait;            /* a kv_pool_wait */
  int64_t map_peak; /* most bytes of the tables of all admitted requests */
  int64_t running, running_peak; /* requests that took a step, and that waited:
                                    summed, and most at once */
  int64_t waiting, waiting_peak;
  int64_t peak;   /* most pages in use, reserved ones too */
  int64_t held;   /* pages in use after each step, summed */
  int64_t unused; /* bytes of these without a token, summed */
  int64_t unused_peak;
  int64_t moved, entries, operations; /* as in kv_layout_table_result */
} kv_pool_result;

/* A pool after one of its steps. */
typedef struct kv_pool_step {
  int64_t step, running, waiting; /* that took it; that wait */
  int64_t pages, unused;          /* in use; bytes of these without a token */
} kv_pool_step;

/* What became of one request in a pool. */
typedef struct kv_together_result {
  int64_t there;                /* 0 or 1: the cell was part of a pool */
  int64_t place;                /* its number among the requests, from 0 */
  int64_t arrives, ends;        /* ends: it holds nothing from here on */
  int64_t blocks;               /* of its prompt, plus its decoded tokens */
  int64_t refused;              /* the step in which it found too few pages; -1:
                                   none. Then, in pages: */
  int64_t holds, wanted, spare; /* held, wanted, and free */
  int64_t pages_peak;           /* most pages that it held */
  int64_t admitted, first;      /* steps: its first, and the step after which it
                                   has its first token; -1: never */
  int64_t waited, put_back; /* steps in between without a step of its own; how
                               often it gave up its pages to wait */
  kv_pool_result pool;      /* the same for all requests of the pool */
} kv_together_result;

/* Ranks of tensor parallelism, each with a share of the KV heads and deciding
 * alone (kvreplay run --tp, sim/cli/sheet/beside.h). Not stored in a database.
 */
typedef struct kv_ranks_result {
  int ranks;         /* 0: no --tp, and the rest is unset */
  int lanes, unlike; /* lanes of all layers of the replayed ranks; how many of
                        them decided differently than in the whole model */
  /* Bytes of the fullest rank / their mean, after the last step: if each
   * decides alone, and if all follow the whole model's decisions. */
  double fullest, fullest_told;
  char why[256]; /* why the cell was left out, a sentence; "": it was not */
} kv_ranks_result;

/* The same cell, compressed after each piece of its prompt (kvreplay run
 * --chunk, sim/cli/sheet/beside.h). Not stored in a database. */
typedef struct kv_chunks_result {
  int chunk;         /* tokens of a piece; 0: no --chunk, and the rest is unset
                      */
  int lanes, unlike; /* lanes of all recorded layers; how many of them hold
                        other tokens when decoding begins, or decide differently
                        later */
  double shared;     /* percent of the entries held there after the whole prompt
                        whose tokens are also held after the pieces */
  /* The most bytes held, in percent of dense after the last step. */
  double whole_peak, peak;
  char why[256]; /* why the cell was left out, a sentence; "": it was not */
} kv_chunks_result;

/* The fate of every token in one lane (kvreplay run --tokens). */
typedef struct kv_survival {
  int layer, lane; /* the model's layer; the lane's number in it */
  int32_t *gone;   /* [n_tokens] tokens seen when it was no longer stored, alone
                      or merged; 0: it is stored to the end */
  int32_t *shown;  /* [n_tokens] decode steps at which a query head saw it; part
                      of gone's memory */
} kv_survival;

/* A cache on the device for entries in host memory (kvreplay run --cache,
 * sim/run/look/device_caches.h), over all decode steps. */
typedef struct kv_device_cache {
  char name[32];        /* lru:64 */
  bool there;           /* false: nothing is in host memory, all is 0 */
  int64_t looked, hits; /* entries of all lanes: looked up; found there */
  int64_t fetched;      /* bytes of the entries not found */
  int64_t fetched_peak; /* most bytes fetched in a step, of all layers */
  int64_t held_peak;    /* most bytes in the caches of all lanes */
} kv_device_cache;

typedef struct kv_result {
  char trace[256];    /* file stem */
  kv_digest identity; /* of the trace, where has_identity */
  bool has_identity;
  char path[256]; /* end of the path of its file as given; "": not known */
  bool twin;      /* another trace of the job has that name (kv_job_open) */
  int prompt_len, n_tokens; /* of the replay; of the trace */
  kv_observe observe;       /* how prompt_len was chosen */
  const char *method;       /* its name, valid as long as the method table, or
                               the database that the row is from */
  int revision;             /* of the method's code */
  char *code;   /* hex digest of a plugin, of a method's file, or NULL */
  char *params; /* JSON object, every parameter written out */
  char *spec;   /* the same as method:key=value:... */
  kv_status status;
  char reason[512]; /* a sentence if it did not run or failed, else "" */
  bool of_layout;   /* it did not run because a requested layout cannot hold its
                       rows; such a row is not stored */
  int arithmetic;   /* the KV_ARITHMETIC that computed it */
  int budget;       /* entries of a lane, for a list their mean; -1: none */
  kv_basis basis;   /* of the budget as typed */
  char target[64];  /* the budget as typed; "": none */
  double achieved;  /* what the row used, in the unit of the basis; NaN: none */
  kv_digest journal, state, output; /* over all layers */
  bool has_scores;  /* digests of selections' scores were computed */
  kv_digest scores; /* over all layers */
  kv_totals totals;
  kv_stat stat[KV_MEASURES];
  double drift; /* as in kv_part, for the whole run */
  /* Means over layers and query heads at each decode step: [KV_MEASURES]
   * [n_steps - 1], NaN if no row has a value. NULL: not measured. */
  float *step_mean;
  int n_parts, n_layers, n_steps;
  kv_part *part;            /* layers, then heads, then bins */
  kv_layer_result *layer;   /* [n_layers] */
  kv_step_cost *step;       /* [n_steps] from prompt_len to n_tokens seen */
  int n_layouts;            /* requested layouts; numbers only if the row ran */
  kv_layout_result *layout; /* [n_layouts] */
  kv_together_result together;   /* kvreplay run --together */
  kv_ranks_result ranks;         /* kvreplay run --tp */
  kv_chunks_result chunks;       /* kvreplay run --chunk */
  int n_survivals;               /* layers times lanes, or 0: not recorded */
  kv_survival *survival;         /* [n_survivals] */
  int n_device_caches;           /* requested ones */
  kv_device_cache *device_cache; /* [n_device_caches] */
  /* How it was computed: the confirmation. */
  const char *backend; /* its name, a constant or the database's */
  char isa[16];        /* kernel set */
  int threads;
  double seconds; /* spent on this cell alone */
} kv_result;

/* Does the row have digests and measures? */
static inline bool kv_result_ran(const kv_result *r) {
  return r->status == KV_CELL_OK || r->status == KV_CELL_FIXED;
}

/* The trace's name for people: its path if another trace has the same name. */
static inline const char *kv_result_name(const kv_result *r) {
  return r->twin ? r->path : r->trace;
}

/* Bytes of the dense cache a token, over all recorded layers, for a row that
 * ran and has its steps. totals.kr is the mean over steps of bytes held /
 * (tokens x this). */
double kv_result_dense(const kv_result *r);

/* Frees what was measured of layers, steps and parts, once it has been written.
 * Names, totals, layouts and survival stay. */
void kv_result_forget(kv_result *r);
void kv_result_free(kv_result *r); /* the arrays, not r; accepts zeroed */

#endif
