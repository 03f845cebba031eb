/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/db/db_*.c: the connection with its prepared statements, and
 * the calls that bind, run and read one statement.
 */
#ifndef KV_SIM_DB_PRIVATE_H
#define KV_SIM_DB_PRIVATE_H

#include "sim/db/db.h"
#include <sqlite3.h>

/* FIRST_KINDS: kinds of bytes (ref/lane/ledger.h) that every database has had.
 * WHERE: room for the words that say where two results part. */
enum {
  KV_DB_APPLICATION = 0x6b767270,
  KV_DB_STATEMENTS = 96,
  KV_DB_FIRST_KINDS = 5,
  KV_DB_WHERE = 256
};

struct kv_db {
  sqlite3 *sql;
  char path[512];
  char wrong[32]; /* column with an impossible value, or "" */
  bool logged;    /* opened for writing: close removes the log */
  bool still;     /* read-only: kv_db_put only compares */
  struct {
    const char *text; /* the literal, found by its address */
    sqlite3_stmt *stmt;
  } cache[KV_DB_STATEMENTS];
  int n_cached;
  kv_db_wait wait; /* since when it waits, and whether tell was called */
  int64_t waits_since;
  bool notified;
  char **word; /* texts that live as long as the database is open */
  int n_words;
};

/* Migrations: step i takes user_version i to i + 1. */
extern const char *const kv_db_steps[];
extern const int kv_db_n_steps;
/* KV_OK if the file is our database, or empty. KV_INPUT if it is another
 * program's, or a later version's. */
kv_rc kv_db_recognise(kv_db *db, kv_err *e);
/* Brings the schema up to step n, each step one transaction with its version
 * number. Never goes back. */
kv_rc kv_db_migrate(kv_db *db, int n, const char *const *step, kv_err *e);

/* sim/db/db_wait.c: waiting as db->wait says. wait_for_others installs the
 * handler that SQLite calls when the file is locked. SQLite does not call it
 * while changing the journal mode; there call wait_on with 0, 1, ... before
 * each new attempt, and give up when it returns false. */
void kv_db_wait_for_others(kv_db *db);
bool kv_db_wait_on(kv_db *db, int asked);

/* Turns SQLite's last error into a sentence and a code; doing: what was
 * attempted. */
kv_rc kv_db_fail(kv_db *db, const char *doing, kv_err *e);

/* Prepares (once a literal) and binds. Types, a letter an argument:
 *   s text or NULL    i int64_t    n int, -1 is null
 *   d double: the readable number (null for NaN), then its bits
 *   r double: only the readable number
 *   h const kv_digest *: hex, or NULL
 *   b const kv_db_blob *, not copied: the statement is run at once */
typedef struct kv_db_blob {
  size_t size;
  const void *data;
} kv_db_blob;
kv_rc kv_db_bind(kv_db *db, sqlite3_stmt **out, kv_err *e, const char *sql,
                 const char *types, ...);
/* Binds and runs a statement to its end. */
kv_rc kv_db_do(kv_db *db, kv_err *e, const char *sql, const char *types, ...);
/* Steps to the next row. False at the end (*rc is KV_OK) or on failure; the
 * statement is then reset. */
bool kv_db_row(kv_db *db, sqlite3_stmt *s, kv_rc *rc, kv_err *e);
/* Ends a statement before its last row. Fails if memory ended while a text was
 * read. */
kv_rc kv_db_done(kv_db *db, sqlite3_stmt *s, kv_err *e);

kv_rc kv_db_begin(kv_db *db, kv_err *e);
/* Commits if rc is KV_OK, else rolls back; returns rc, or the error of the
 * commit. */
kv_rc kv_db_end(kv_db *db, kv_rc rc, kv_err *e);

/* Values of the current row, by column. A value of the wrong type or out of
 * range becomes something harmless, and the column is remembered: kv_db_sound
 * then reports it as KV_INPUT. int: lo..INT32_MAX; text: "" if null; object:
 * "{}" if it is no JSON object; name: the index of the text among names. */
int64_t kv_db_whole(kv_db *db, sqlite3_stmt *s, int at, int64_t lo, int64_t hi);
int kv_db_int(kv_db *db, sqlite3_stmt *s, int at, int lo);
double kv_db_double(kv_db *db, sqlite3_stmt *s, int at); /* of its bits */
double kv_db_number(kv_db *db, sqlite3_stmt *s, int at); /* of a REAL */
const char *kv_db_text(kv_db *db, sqlite3_stmt *s, int at);
const char *kv_db_object(kv_db *db, sqlite3_stmt *s, int at);
int kv_db_name(kv_db *db, sqlite3_stmt *s, int at, int n,
               const char *const *names);
void kv_db_digest(kv_db *db, sqlite3_stmt *s, int at, kv_digest *d);
kv_rc kv_db_sound(kv_db *db, const char *table, int64_t run, kv_err *e);

/* The double behind its stored bits, and back; any NaN has one pattern. */
double kv_db_real(int64_t bits);
int64_t kv_db_bits(double x);
/* The code of a row as text: "revision N", or the digest of kv_code. */
const char *kv_db_code(const kv_result *r, char out[80]);
/* The key without code and arithmetic: rows with the same subject answer the
 * same question. */
void kv_db_subject(const kv_result *r, char out[65]);
/* Digest over the bits of every measured value. measures: how many measures and
 * numbers of a run it counts; of a row with fewer, which an earlier kvreplay
 * put, it is another. */
int kv_db_measures(void);
void kv_db_value(const kv_result *r, char out[65]);
/* Writes the row of a trace, or of an environment; inside a transaction. */
kv_rc kv_db_trace_row(kv_db *db, const char *name, const kv_digest *identity,
                      int n_tokens, const kv_shape *s, kv_err *e);
kv_rc kv_db_environment_row(kv_db *db, const kv_environment *v, int64_t *id,
                            kv_err *e);
/* The run's number under a key; 0 if there is none. */
kv_rc kv_db_run_of(kv_db *db, const char *key, int64_t *run, kv_err *e);
kv_rc kv_db_ask_row(kv_db *db, int64_t run, const kv_result *r, kv_err *e);
/* Deletes what the backend kept of an unfinished row; inside a transaction. */
kv_rc kv_db_unkeep(kv_db *db, const char *key, const char *backend, kv_err *e);
/* 64 lower-case hex digits; false, and zeros, for anything else. */
bool kv_digest_read(const char *hex, kv_digest *d);
/* Reads what was measured in a run into r. Its arrays are allocated (old
 * pointers are not freed); its names stay. */
kv_rc kv_db_load(kv_db *db, int64_t run, kv_result *r, kv_err *e);
const char *kv_db_word(kv_db *db, const char *text); /* NULL: no memory */
/* sim/db/db_moments.c: squares and means of steps. has: are they in r, which
 * decoded? put stores the means with a run that has none; load reads them;
 * compare fills `where` if squares or means differ; else `where` is unchanged.
 */
bool kv_db_has_moments(const kv_result *r);
kv_rc kv_db_put_means(kv_db *db, int64_t run, const kv_result *r, kv_err *e);
kv_rc kv_db_load_means(kv_db *db, int64_t run, kv_result *r, kv_err *e);
void kv_db_compare_moments(const kv_result *before, const kv_result *now,
                           char where[KV_DB_WHERE]);
/* The measure named in a column; -1 for one that this program does not know,
 * which is skipped. */
int kv_db_measure(kv_db *db, sqlite3_stmt *s, int at);
/* sim/db/db_layout.c. put stores the layouts of r that the run does not have
 * yet. compare fills `where` if one that it has differs; else `where` is
 * unchanged. */
kv_rc kv_db_put_layouts(kv_db *db, int64_t run, const kv_result *r, kv_err *e);
kv_rc kv_db_compare_layouts(kv_db *db, int64_t run, const kv_result *r,
                            char where[KV_DB_WHERE], kv_err *e);
/* sim/db/db_survival.c: the same of what became of tokens. */
kv_rc kv_db_put_survivals(kv_db *db, int64_t run, const kv_result *r,
                          kv_err *e);
kv_rc kv_db_compare_survivals(kv_db *db, int64_t run, const kv_result *r,
                              char where[KV_DB_WHERE], kv_err *e);
/* sim/db/db_figure.c: a number that was found in a trace, by its name (there)
 * and x and y; of f's layer, head, series and part. After a failure, which rc
 * has, nothing is stored any more; nor is a NaN. */
enum { KV_DB_MAP = 64 };
typedef struct kv_db_figure {
  kv_db *db;
  const kv_digest *identity;
  int layer, head; /* head -1: the layer as a whole */
  const char *series, *part;
  kv_rc rc;
  kv_err *e;
} kv_db_figure;
void kv_db_figure_whole(kv_db_figure *f, const char *name, int x, int y,
                        int64_t value);
void kv_db_figure_real(kv_db_figure *f, const char *name, int x, int y,
                       double value);
/* n <= KV_DB_MAP */
void kv_db_figure_map(kv_db_figure *f, const char *name, int x, int y, int n,
                      const int32_t *map);
/* *has: there are as many layers of it, of that series (NULL: of any). */
kv_rc kv_db_has_figure(kv_db *db, const kv_digest *identity, const char *name,
                       const char *series, int layers, bool *has, kv_err *e);
/* Finds where two results under one key first differ: "output of layer 2:
 * 12ab.. before, 34cd.. now"; "" if nowhere. *layer is -1 if no layer differs.
 * values false: compare digests only. */
void kv_db_compare(const kv_result *before, const kv_result *now, bool values,
                   int *layer, char where[KV_DB_WHERE]);

#endif
