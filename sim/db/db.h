/* SPDX-License-Identifier: Apache-2.0
 *
 * The database of results: one SQLite file that holds every finished cell, who
 * confirmed it and what contradicted it. What kv_db_put has stored (KV_OK) is
 * durable, however the program ends afterwards; a repeated command finds its
 * rows with kv_db_find and computes only the rest.
 *
 * A row's key is the SHA-256 of trace identity, prompt_len, what it was asked
 * for as (kv_observe, where it is not recorded), method, its code, every
 * parameter written out (kv_spec_json) and the arithmetic version. New
 * code makes a new row; the old one stays as history. The bytes of a method's
 * file count as its code, its folder does not: moving the file changes no key,
 * and another file under the same name is newer code. The first result under a
 * key is never overwritten: an equal one confirms it, a different one is stored
 * as a conflict. If the first result has no digest of scores, the first later
 * one that has adds it.
 *
 * Not thread-safe: threads that share a kv_db must take turns. Several
 * processes may use one file; a writer waits up to a minute for another. While
 * the database is open, the -wal and -shm files beside it belong to it. Each
 * call is one transaction and one fsync: milliseconds.
 */
#ifndef KV_SIM_DB_H
#define KV_SIM_DB_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "sim/db/environment.h"
#include "sim/inspect/similarity.h"
#include "sim/layout/layout.h"
#include "sim/measure/result.h"
#include "traces/trace/sparsity.h"

typedef struct kv_db kv_db;

/* Opens the database, or creates it. KV_INPUT: the file is no kvreplay
 * database, or was written by a later version; it is not touched. KV_USAGE: the
 * path is no regular file (a folder, a device, a pipe). */
kv_rc kv_db_open(const char *path, kv_db **out, kv_err *e);
/* What to do while another process writes. tell (or NULL) is called once if the
 * wait is not short; pid is 0 if it is not known. stop (or NULL) is polled;
 * true gives up at once. */
typedef struct kv_db_wait {
  void (*tell)(void *self, const char *path, long pid);
  bool (*stop)(void);
  void *self;
} kv_db_wait;
kv_rc kv_db_open_waiting(const char *path, const kv_db_wait *wait, kv_db **out,
                         kv_err *e);

/* Opens an existing database. If it cannot be written (a read-only disk, folder
 * or file), it is opened for reading: kv_db_still is then true, kv_db_put only
 * compares, and every other call that stores fails. */
kv_rc kv_db_open_found(const char *path, const kv_db_wait *wait, kv_db **out,
                       kv_err *e);
bool kv_db_still(const kv_db *db);

/* Accepts NULL. The last program that closes the file leaves it without a log,
 * so that it can be read from anywhere. */
void kv_db_close(kv_db *db);

/* Writes the key, 64 hex digits. A refused row never ran, so its key also
 * includes what was asked: basis and target. */
void kv_db_key(const kv_result *r, char out[65]);

/* Records a trace and where its file was seen; the path is made absolute.
 * Repeating the call changes nothing. shape may be NULL. */
typedef struct kv_db_trace {
  const char *name; /* file stem */
  kv_digest identity;
  const kv_shape *shape;
  const char *path;
  int n_shards; /* 0: the file itself */
  const char *const *shard;
} kv_db_trace;
kv_rc kv_db_put_trace(kv_db *db, const kv_db_trace *t, kv_err *e);

/* Looks for a row. On entry r holds what kv_db_key reads and what was asked:
 * trace, identity, prompt_len, observe, n_tokens, method, revision, code,
 * params, arithmetic, basis, target, budget; and r->backend, if only a row that
 * this backend has computed or confirmed will do (NULL: any). If there is one,
 * *found is set and the rest of r filled to the bit, as it was put (any NaN
 * becomes the one quiet NaN). r->achieved is NaN if this basis and target were
 * never asked of the row: compute it from r->totals and call kv_db_ask, which
 * records it. backend, isa, threads and seconds are those of the first
 * confirmation (by that backend); backend lives as long as db. */
kv_rc kv_db_find(kv_db *db, kv_result *r, bool *found, kv_err *e);
kv_rc kv_db_ask(kv_db *db, const kv_result *r, kv_err *e);

/* Adds the layouts that are stored of the run under a key to out, which is
 * zeroed or holds others; those that this program does not know are skipped. */
kv_rc kv_db_layouts_of(kv_db *db, const char *key, kv_layout_list *out,
                       kv_err *e);
/* Fills the numbers of the layouts that r names, except their steps. *all:
 * every one of them was found. r as for kv_db_find. */
kv_rc kv_db_find_layouts(kv_db *db, kv_result *r, bool *all, kv_err *e);

/* What the heads of a trace attend to, which kv_db_put_trace has recorded: of
 * each of `layers` recorded layers, whose numbers layer[] has, and of each of
 * its KV heads, of[layers][heads]. All of it is one transaction. What is there
 * stays: nothing but the trace and the arithmetic decides it. *has: of as many
 * layers. */
kv_rc kv_db_has_attention(kv_db *db, const kv_digest *identity, int layers,
                          bool *has, kv_err *e);
kv_rc kv_db_put_attention(kv_db *db, const kv_digest *identity, int layers,
                          const int *layer, int heads, const kv_sparsity *of,
                          kv_err *e);

/* The same of how alike its tokens are, of[layers]; of the program, not of the
 * library. *has: of all these layers, with spectra where this kvreplay has any.
 */
kv_rc kv_db_has_similarities(kv_db *db, const kv_digest *identity, int layers,
                             bool *has, kv_err *e);
/* Has it of `layers` layers what a compressor's file misses? */
kv_rc kv_db_has_rebuilt(kv_db *db, const kv_digest *identity,
                        const kv_digest *file, int layers, bool *has,
                        kv_err *e);
kv_rc kv_db_put_similarities(kv_db *db, const kv_digest *identity, int layers,
                             const int *layer, const kv_similarities *of,
                             kv_err *e);

/* The same of what shares of its probability select; found: of all layers,
 * kv_choices_size bytes each (sim/inspect/selection.h). */
kv_rc kv_db_has_selections(kv_db *db, const kv_digest *identity, int layers,
                           bool *has, kv_err *e);
kv_rc kv_db_put_selections(kv_db *db, const kv_digest *identity, int layers,
                           const int *layer, int heads, const void *found,
                           kv_err *e);

/* *has: what became of its tokens is stored with the row. */
kv_rc kv_db_has_survivals(kv_db *db, const kv_result *r, bool *has, kv_err *e);

/* *yes: the row was confirmed with this kernel set. */
kv_rc kv_db_confirmed(kv_db *db, const kv_result *r, const char *isa, bool *yes,
                      kv_err *e);

/* Stores a finished cell in one durable transaction, or confirms the row that
 * is already there. KV_DIFFERENT if that row has other digests or values: the
 * sentence has both and the first layer that differs, and the conflict is
 * stored too (table diff). r->has_identity must be true. */
kv_rc kv_db_put(kv_db *db, const kv_result *r, const kv_environment *env,
                kv_err *e);

/* Stores what requests that shared a pool held, r[i]->together, in the order in
 * which they arrived; the rows of those that ran must be there. KV_DIFFERENT:
 * the pool is there with other numbers. sim/db/db_pool.c */
kv_rc kv_db_put_pool(kv_db *db, int n, const kv_result *const *r, kv_err *e);

/* Records that somebody else's kernel (`who`) differs from the row of r, which
 * must be there: on which layer, and what differs. Stored in the table diff
 * once for each environment. what NULL: a new grading begins; differences
 * recorded before are deleted. */
kv_rc kv_db_put_theirs(kv_db *db, const kv_result *r, const kv_environment *env,
                       const char *who, int layer, const char *what, kv_err *e);

/* Layers of unfinished cells: bytes that the database does not interpret,
 * stored under the key of the row to come and the backend that computes it.
 * kv_db_put of that row deletes everything that its backend kept for it. */
typedef struct kv_db_whose {
  char key[65];
  const char *backend, *isa;
} kv_db_whose;
typedef struct kv_db_partial {
  int layer;
  const char *build; /* build of the program that wrote it; only the same build
                        may read it */
  size_t size;
  const void *data;
} kv_db_partial;

/* One transaction: begin; keep, any number of times; end with the result so far
 * (KV_OK commits). Waits for other writers two seconds only. */
kv_rc kv_db_keep_begin(kv_db *db, kv_err *e);
kv_rc kv_db_keep(kv_db *db, const kv_db_whose *w, const kv_db_partial *p,
                 kv_err *e);
kv_rc kv_db_keep_end(kv_db *db, kv_rc rc, kv_err *e);

/* Passes every kept layer of a cell to t->take, in ascending order. Damaged
 * layers, and those for which take returns false, are deleted and counted in
 * *dropped. */
typedef struct kv_db_taker {
  void *self;
  bool (*take)(void *self, const kv_db_partial *p);
} kv_db_taker;
kv_rc kv_db_kept(kv_db *db, const kv_db_whose *w, const kv_db_taker *t,
                 int *dropped, kv_err *e);
/* Deletes kept layers that nobody asked for in thirty days. */
kv_rc kv_db_forget_old(kv_db *db, kv_err *e);
/* Returns unused space to the disk if the file was created so that it can;
 * otherwise later rows reuse it. Best effort. */
void kv_db_shrink(kv_db *db);

/* Stored answers of searches for a byte budget: the value of the knob (entries,
 * or another kv_knob_value); B = -1: no value fits. r as for kv_db_find, with
 * the knob null in its params. */
kv_rc kv_db_find_budget(kv_db *db, const kv_result *r, bool *found, int *B,
                        kv_err *e);
kv_rc kv_db_put_budget(kv_db *db, const kv_result *r, int B, kv_err *e);

/* Probes of a search that has no answer yet: what the method costs with that
 * value of its knob, and what dense would cost, in bytes. r as above. ("None
 * fits" is an answer.) */
typedef struct kv_db_probe {
  int entries;
  int64_t bytes, dense;
} kv_db_probe;
kv_rc kv_db_find_probe(kv_db *db, const kv_result *r, kv_db_probe *p,
                       bool *found, kv_err *e);
kv_rc kv_db_put_probe(kv_db *db, const kv_result *r, const kv_db_probe *p,
                      kv_err *e);

/* Iterates over rows in the order of their keys. Start with *key "" (room for
 * 64 hex digits); each call fills r as kv_db_find does, the method included
 * (lives as long as db), and sets key to that row's; *more is false past the
 * end. Free r with kv_result_free. */
kv_rc kv_db_next(kv_db *db, char key[65], kv_result *r, bool *more, kv_err *e);

/* The n-th path under which the trace was seen; "" past the last. */
kv_rc kv_db_path(kv_db *db, const kv_digest *identity, int n, size_t size,
                 char *path, kv_err *e);

#endif
