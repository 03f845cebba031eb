/* SPDX-License-Identifier: Apache-2.0
 *
 * The database of results: one SQLite file that holds every finished cell,
 * who confirmed it and what contradicted it. Nothing that kv_db_put has
 * answered with KV_OK is lost, whatever kills the program afterwards; a
 * repeated command finds its rows with kv_db_find and computes only the rest.
 *
 * A row's key is the SHA-256 of trace identity, prompt_len, method, its code,
 * every parameter written out (kv_spec_json) and the arithmetic version. New
 * code makes a new row; the old one stays as history. The bytes of decisions
 * are the code of who follows them: the folder they lie in changes no key, and
 * other decisions in a file of that name are newer code. The first result under
 * a key is never overwritten: an equal one confirms it, a different one is a
 * conflict.
 *
 * Not for two threads at once: who shares a kv_db takes turns. Several
 * processes may use one file; a writer waits up to a minute for another.
 * Paths of -wal and -shm files beside the database belong to it while it is
 * open. A call is one transaction, one fsync: milliseconds.
 */
#ifndef KV_SIM_DB_H
#define KV_SIM_DB_H

#include "ref/err.h"
#include "ref/shape.h"
#include "sim/environment.h"
#include "sim/result.h"

typedef struct kv_db kv_db;

/* Opens or creates. A file that is no kvreplay database, or one that a later
 * version has written, is KV_INPUT and is not touched. */
kv_rc kv_db_open(const char *path, kv_db **out, kv_err *e);
void kv_db_close(kv_db *db); /* accepts NULL */

/* 64 hex digits. A refused row never ran, so what was asked (basis and
 * target) is part of its key, too. */
void kv_db_key(const kv_result *r, char out[65]);

/* A trace and where its file was seen; path is made absolute. Repeating it
 * does nothing. shape may be NULL. */
typedef struct kv_db_trace {
  const char *name; /* file stem */
  kv_digest identity;
  const kv_shape *shape;
  const char *path;
  int n_shards; /* 0: the file itself */
  const char *const *shard;
} kv_db_trace;
kv_rc kv_db_put_trace(kv_db *db, const kv_db_trace *t, kv_err *e);

/* r holds trace, identity, prompt_len, n_tokens, method, revision, code,
 * params, arithmetic, basis, target, budget: what kv_db_key reads and what
 * was asked; and backend: the one that must have computed or confirmed it,
 * NULL: whichever. Where such a row is there, *found, and everything else of r
 * is filled to the bit, as it was put (NaN as the one quiet NaN); r->achieved
 * is NaN where this basis and target were never asked of it: compute it from
 * r->totals and call kv_db_ask. backend, isa, threads and seconds are those of
 * the first confirmation (of that backend); backend lives as long as db. */
kv_rc kv_db_find(kv_db *db, kv_result *r, bool *found, kv_err *e);
kv_rc kv_db_ask(kv_db *db, const kv_result *r, kv_err *e);

/* Has this kernel set confirmed the row? */
kv_rc kv_db_confirmed(kv_db *db, const kv_result *r, const char *isa, bool *yes,
                      kv_err *e);

/* Stores a finished cell, or confirms the row that is there, in one durable
 * transaction. A row that is there with other digests or values: KV_DIFFERENT
 * with both and the first layer that differs; this too is stored (diff).
 * r->has_identity is true. */
kv_rc kv_db_put(kv_db *db, const kv_result *r, const kv_environment *env,
                kv_err *e);

/* Notes that somebody else's kernel differs from the row of r, which is there:
 * where, on which layer, and what it calls itself. Stored (diff) once an
 * environment. what NULL: it is graded anew, what it differed in before is
 * forgotten. */
kv_rc kv_db_put_theirs(kv_db *db, const kv_result *r, const kv_environment *env,
                       const char *who, int layer, const char *what, kv_err *e);

/* Answers of the search for a byte budget. B = -1: none fits. r as for
 * kv_db_find; its params are those without the budget. */
kv_rc kv_db_find_budget(kv_db *db, const kv_result *r, bool *found, int *B,
                        kv_err *e);
kv_rc kv_db_put_budget(kv_db *db, const kv_result *r, int B, kv_err *e);

/* Rows in the order of their keys, for verify: *key is 64 hex digits, "" to
 * begin, and becomes the next row's; *more false at the end. Fills r as
 * kv_db_find does, method included (lives as long as db); kv_result_free. */
kv_rc kv_db_next(kv_db *db, char key[65], kv_result *r, bool *more, kv_err *e);

/* Where the trace was seen: the n-th path, "" past the last. */
kv_rc kv_db_path(kv_db *db, const kv_digest *identity, int n, size_t size,
                 char *path, kv_err *e);

#endif
