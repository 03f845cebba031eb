/* SPDX-License-Identifier: Apache-2.0
 *
 * The database of results: one SQLite file with every finished cell, its
 * confirmations and contradictions. What kv_db_put has stored (KV_OK) is
 * durable, however the program ends. A repeated command finds its rows with
 * kv_db_find and computes only the rest.
 *
 * A row's key is the SHA-256 of trace identity, prompt_len, how that was chosen
 * (kv_observe, if it is not recorded), method, its code, every parameter
 * written out (kv_spec_json) and the arithmetic version. New code makes a new
 * row; the old one stays as history. The bytes of a method's file count as its
 * code, its folder does not: moving the file changes no key, and another file
 * under the same name is newer code. The first result under a key is never
 * overwritten. An equal one confirms it, and adds digests of scores, layouts
 * and the fate of tokens if the row lacks them. A different one is stored as a
 * conflict.
 *
 * Not thread-safe: threads that share a kv_db must take turns. Several
 * processes may use one file; a writer waits up to a minute for another. While
 * the database is open, the -wal and -shm files next to it belong to it. A call
 * that stores is one transaction and one fsync: milliseconds. kv_db_keep and
 * kv_db_kept differ, see there.
 *
 * Unless a comment says otherwise a call returns KV_OK; KV_INPUT: the file is
 * damaged or not ours; KV_RESOURCE: no disk, memory or lock; KV_INTERNAL: a
 * bug. A name after `*` in a comment is an output, undefined after a failure.
 * Texts and arrays passed in are only read and remain the caller's. e may be
 * NULL.
 */
#ifndef KV_SIM_DB_H
#define KV_SIM_DB_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "sim/replay/layout/layout.h"
#include "sim/replay/measure/result.h"
#include "sim/store/environment.h"

typedef struct kv_db kv_db; /* one connection to one file */

/* What to do while another process writes. */
typedef struct kv_db_wait {
  /* Or NULL; called once in a long wait. path: the database; pid: the writer, 0
   * if unknown. */
  void (*tell)(void *self, const char *path, long pid);
  bool (*stop)(void); /* polled; true gives up at once. NULL: never */
  void *self;         /* first argument of tell */
} kv_db_wait;

/* Opens the database, or creates it. Close *out, which is NULL after a failure.
 * wait is copied; kv_db_open waits in silence. KV_INPUT: the file is no
 * kvreplay database, or has another schema; it is not touched. KV_USAGE: the
 * path is no regular file (a folder, a device, a pipe). */
kv_rc kv_db_open(const char *path, kv_db **out, kv_err *e);
kv_rc kv_db_open_waiting(const char *path, const kv_db_wait *wait, kv_db **out,
                         kv_err *e);

/* Opens an existing database. If it cannot be written (a read-only disk, folder
 * or file), it is opened for reading, and kv_db_still is true. Then kv_db_put
 * only compares, and fails if there is no row; kv_db_put_pool compares if the
 * pool is stored; every other call that would store something fails.
 * KV_RESOURCE also if it is empty or its log would have to be replayed first.
 */
kv_rc kv_db_open_found(const char *path, const kv_db_wait *wait, kv_db **out,
                       kv_err *e);
bool kv_db_still(const kv_db *db);

/* Accepts NULL. The last program that closes the file leaves no log, so that
 * the file can be read anywhere. */
void kv_db_close(kv_db *db);

/* Writes the key, 64 hex digits, of r. It needs the names listed in the head of
 * this file (r->has_identity is asserted) and the status: a refused row never
 * ran, so its key also includes the requested basis and target. */
void kv_db_key(const kv_result *r, char out[65]);

/* Records a trace and where its file was; the path is made absolute. Repeating
 * the call changes nothing. */
typedef struct kv_db_trace {
  const char *name;         /* its file's stem */
  kv_digest identity;       /* of its contents (kv_trace_identity) */
  kv_digest request;        /* of its request (kv_trace_request) */
  const kv_shape *shape;    /* or NULL: unknown */
  const char *path;         /* of the file, or of the index of its shards */
  int n_shards;             /* files of a set; 0: path is the only file */
  const char *const *shard; /* [n_shards] their names */
  const char *answer_by;    /* kv_trace_answer_by, or NULL */
} kv_db_trace;
kv_rc kv_db_put_trace(kv_db *db, const kv_db_trace *t, kv_err *e);

/* Looks for a row, whatever its status and r's. Set in r: identity, prompt_len,
 * observe, method, revision, code, params, arithmetic, basis and target, and
 * r->backend if one backend must have computed or confirmed the row (NULL:
 * any).
 *
 * If there is a row, *found is set. Status, reason, budget and what was
 * measured are filled in to the bit, as they were put (any NaN becomes the one
 * quiet NaN), but not layouts, pools and the fate of tokens. r->achieved is NaN
 * if the row lacks this basis and target: compute it from r->totals and call
 * kv_db_ask, which records it. backend, isa, threads and seconds are those of
 * the first confirmation (by that backend); backend is valid as long as db. */
kv_rc kv_db_find(kv_db *db, kv_result *r, bool *found, kv_err *e);
/* Records r's basis, target, status and achieved with its row, unless the row
 * has that basis and target; does nothing without a row. */
kv_rc kv_db_ask(kv_db *db, const kv_result *r, kv_err *e);

/* Calls take for each layout, or cache on the device, that is stored for the
 * run under a key. If take fails, that name is skipped; KV_RESOURCE ends this.
 */
typedef enum kv_db_named { KV_DB_LAYOUTS, KV_DB_CACHES } kv_db_named;
typedef kv_rc kv_db_take_name(const char *name, void *self, kv_err *e);
kv_rc kv_db_names_of(kv_db *db, kv_db_named of, const char *key,
                     kv_db_take_name *take, void *self, kv_err *e);
/* Fills in the numbers of the layouts that r names, except their steps. *all:
 * every one of them was found. r as for kv_db_find. */
kv_rc kv_db_find_layouts(kv_db *db, kv_result *r, bool *all, kv_err *e);

/* --- rows ----------------------------------------------------------------- */

/* *has: is the fate of tokens stored with r's row? False without a row. */
kv_rc kv_db_has_survivals(kv_db *db, const kv_result *r, bool *has, kv_err *e);

/* *yes: was r's row confirmed with this kernel set, by any backend? */
kv_rc kv_db_confirmed(kv_db *db, const kv_result *r, const char *isa, bool *yes,
                      kv_err *e);

/* Stores a finished cell in one durable transaction, or confirms the row that
 * exists. KV_DIFFERENT if that row has another status, other digests, values or
 * layouts, or another fate of its tokens. The sentence names the first
 * difference, a digest before a value, and the conflict is stored too (table
 * diff). r->has_identity must be true (asserted). env: where it was computed.
 */
kv_rc kv_db_put(kv_db *db, const kv_result *r, const kv_environment *env,
                kv_err *e);

/* Stores what n requests in a shared pool held, r[i]->together, in the order of
 * arrival, and the pool after each of its steps. The rows of those that ran
 * must exist (else KV_INTERNAL). Does nothing if none ran. KV_DIFFERENT: the
 * pool is stored with other numbers. */
kv_rc kv_db_put_pool(kv_db *db, int n, const kv_result *const *r, int64_t steps,
                     const kv_pool_step *step, kv_err *e);

/* Records that another kernel (`who`: its name) differs from the row of r,
 * which must exist (asserted), on a layer (its number in the model). what: a
 * sentence on the difference, stored in the table diff once for each
 * environment; NULL: a new grading begins, and earlier differences for r and
 * who are deleted. */
kv_rc kv_db_put_theirs(kv_db *db, const kv_result *r, const kv_environment *env,
                       const char *who, int layer, const char *what, kv_err *e);

/* --- layers of unfinished cells -------------------------------------------
 * Bytes that the database does not interpret, stored under the key of the
 * future row, backend and kernel set. kv_db_put of that row deletes everything
 * that its backend kept for it. For sim/run/sweep/keeper.h. */
typedef struct kv_db_whose {
  char key[65];        /* of the future row (kv_db_key) */
  const char *backend; /* that computes it */
  const char *isa;     /* its kernel set */
} kv_db_whose;
typedef struct kv_db_partial {
  int layer;         /* index among the recorded layers, >= 0 */
  const char *build; /* of the program that wrote it; must be the reader's */
  size_t size;       /* bytes of data */
  const void *data;
} kv_db_partial;

/* One transaction: begin; keep, any number of times; end with the result so far
 * (KV_OK commits). Waits only two seconds for other writers. */
kv_rc kv_db_keep_begin(kv_db *db, kv_err *e);
kv_rc kv_db_keep(kv_db *db, const kv_db_whose *w, const kv_db_partial *p,
                 kv_err *e);
kv_rc kv_db_keep_end(kv_db *db, kv_rc rc, kv_err *e);

/* Passes every kept, undamaged layer of a cell to t->take, in ascending order;
 * p is valid during the call. Damaged layers, and those for which take returns
 * false, are deleted, each in its own transaction, and counted in *dropped. */
typedef struct kv_db_taker {
  void *self; /* first argument of take */
  bool (*take)(void *self, const kv_db_partial *p);
} kv_db_taker;
kv_rc kv_db_kept(kv_db *db, const kv_db_whose *w, const kv_db_taker *t,
                 int *dropped, kv_err *e);
/* Deletes layers that were kept more than thirty days ago. */
kv_rc kv_db_forget_old(kv_db *db, kv_err *e);
/* Returns unused space to the disk if the file was created to allow that;
 * otherwise later rows reuse it. Best effort. */
void kv_db_shrink(kv_db *db);

/* --- searches for a budget in bytes ---------------------------------------
 * r as for kv_db_find, with the knob null in its params. */

/* The key of a search, 64 hex digits. */
void kv_db_budget_key(const kv_result *r, char out[65]);

/* Stored results of searches: B is the value of the knob (entries, or another
 * kv_knob_value); -1: no value fits. put keeps an existing result, and deletes
 * the probes of the search. */
kv_rc kv_db_find_budget(kv_db *db, const kv_result *r, bool *found, int *B,
                        kv_err *e);
kv_rc kv_db_put_budget(kv_db *db, const kv_result *r, int B, kv_err *e);

/* Probes of a search without a result ("none fits" is a result). */
typedef struct kv_db_probe {
  int entries;   /* in: the value of the knob */
  int64_t bytes; /* what the method costs with it, in the budget's basis */
  int64_t dense; /* what dense costs */
} kv_db_probe;
kv_rc kv_db_find_probe(kv_db *db, const kv_result *r, kv_db_probe *p,
                       bool *found, kv_err *e);
kv_rc kv_db_put_probe(kv_db *db, const kv_result *r, const kv_db_probe *p,
                      kv_err *e);

/* --- all rows ------------------------------------------------------------- */

/* Iterates over rows in the order of their keys. Start with key "". Each call
 * fills in r as kv_db_find does, with its names (r->method is valid as long as
 * db; of several bases and targets, the first in the alphabet), and sets key to
 * that row's. *more is false past the end, and r is then empty. Free r with
 * kv_result_free. KV_INPUT also if the key does not match the row. */
kv_rc kv_db_next(kv_db *db, char key[65], kv_result *r, bool *more, kv_err *e);

/* *n: number of evaluations in the database (sim/store/evaluation.h). */
kv_rc kv_db_evaluations(kv_db *db, int64_t *n, kv_err *e);

/* The n-th path, from 0, at which the trace was seen; "" past the last. Cut to
 * `size` bytes, NUL included. */
kv_rc kv_db_path(kv_db *db, const kv_digest *identity, int n, size_t size,
                 char *path, kv_err *e);

#endif
