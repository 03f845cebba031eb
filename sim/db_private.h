/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files sim/db_*.c share: the connection with its prepared
 * statements, and one call that runs one statement.
 */
#ifndef KV_SIM_DB_PRIVATE_H
#define KV_SIM_DB_PRIVATE_H

#include "sim/db.h"
#include <sqlite3.h>

enum { KV_DB_APPLICATION = 0x6b767270, KV_DB_STATEMENTS = 64 };

struct kv_db {
  sqlite3 *sql;
  char path[512];
  struct {
    const char *text; /* the literal: its address is the name */
    sqlite3_stmt *stmt;
  } cache[KV_DB_STATEMENTS];
  int n_cached;
  char **word; /* texts that live as long as the database is open */
  int n_words;
};

/* Migrations: step i takes user_version i to i + 1. */
extern const char *const kv_db_steps[];
extern const int kv_db_n_steps;
/* Forward only, each step one transaction with its version number. */
kv_rc kv_db_migrate(kv_db *db, int n, const char *const *step, kv_err *e);

/* The sentence for what SQLite just said, and its code. */
kv_rc kv_db_fail(kv_db *db, const char *doing, kv_err *e);

/* Prepares (once a literal) and binds. Types, a letter an argument:
 *   s text or NULL    i int64_t    n int, -1 is null
 *   d double: the readable number (null for NaN), then its bits
 *   r double: only the readable number
 *   h const kv_digest *: hex, or NULL */
kv_rc kv_db_bind(kv_db *db, sqlite3_stmt **out, kv_err *e, const char *sql,
                 const char *types, ...);
/* The same and runs it to the end. */
kv_rc kv_db_do(kv_db *db, kv_err *e, const char *sql, const char *types, ...);
/* Next row: true; at the end or on failure false with *rc set, and reset. */
bool kv_db_row(kv_db *db, sqlite3_stmt *s, kv_rc *rc, kv_err *e);
/* Ends a statement of which no further row is wanted; fails where a text of
 * the row could not be had. */
kv_rc kv_db_done(kv_db *db, sqlite3_stmt *s, kv_err *e);

kv_rc kv_db_begin(kv_db *db, kv_err *e);
/* COMMIT where rc is KV_OK, else ROLLBACK; returns rc or what failed. */
kv_rc kv_db_end(kv_db *db, kv_rc rc, kv_err *e);

/* The double behind its stored bits, and back; any NaN has one pattern. */
double kv_db_real(int64_t bits);
int64_t kv_db_bits(double x);
/* The code of a row as text: "revision N", or the digest of a plugin. */
const char *kv_db_code(const kv_result *r, char out[80]);
/* Key without code and arithmetic: what newer code answers again. */
void kv_db_subject(const kv_result *r, char out[65]);
/* Digest over every measured value, bit by bit. */
void kv_db_value(const kv_result *r, char out[65]);
/* Writes the trace's row, the environment's; inside a transaction. */
kv_rc kv_db_trace_row(kv_db *db, const char *name, const kv_digest *identity,
                      int n_tokens, const kv_shape *s, kv_err *e);
kv_rc kv_db_environment_row(kv_db *db, const kv_environment *v, int64_t *id,
                            kv_err *e);
/* Number of the run under a key; 0 = not there. */
kv_rc kv_db_run_of(kv_db *db, const char *key, int64_t *run, kv_err *e);
kv_rc kv_db_ask_row(kv_db *db, int64_t run, const kv_result *r, kv_err *e);
/* 64 lower-case hex digits; false, and zeros, for anything else. */
bool kv_digest_read(const char *hex, kv_digest *d);
/* What was measured under a run's number into r: its arrays are new (what
 * they pointed at is not freed), its names stay. */
kv_rc kv_db_load(kv_db *db, int64_t run, kv_result *r, kv_err *e);
const char *kv_db_word(kv_db *db, const char *text); /* NULL: no memory */
/* Where two results under one key part: "output of layer 2: 12ab.. before,
 * 34cd.. now". layer -1 where no layer differs. Empty: nowhere. With
 * values false only digests count. */
enum { KV_DB_WHERE = 256 };
void kv_db_compare(const kv_result *before, const kv_result *now, bool values,
                   int *layer, char where[KV_DB_WHERE]);

#endif
