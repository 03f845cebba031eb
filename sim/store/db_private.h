/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/store/db_*.c: the connection, and the calls that prepare,
 * bind, step and read one SQLite statement. A query is kv_db_bind, kv_db_row
 * until it is false, kv_db_sound. kv_db_one and kv_db_do do all of it to read
 * one number or nothing. Unless a comment says otherwise a kv_rc here is KV_OK
 * or what kv_db_fail returns, with a sentence in e; e may be NULL.
 */
#ifndef KV_SIM_DB_PRIVATE_H
#define KV_SIM_DB_PRIVATE_H

#include "sim/store/db.h"
#include "sim/store/union.h"
#include <sqlite3.h>
#include <stddef.h>

enum {
  KV_DB_STATEMENTS = 96, /* most prepared literals of a connection */
  KV_DB_FIRST_MEASURES = KV_PROMPT_ERROR, /* every run's digest counts these
                                             measures, stored or not */
  KV_DB_FIRST_KINDS = 5, /* kinds of bytes (ref/lane/ledger.h) for which every
                            run has a row; later kinds may be missing */
};

struct kv_db {
  sqlite3 *sql;
  char path[512];  /* as the caller named it, truncated */
  char wrong[32];  /* first column with an impossible value, or "" */
  bool logged;     /* opened for writing: close removes the log */
  bool still;      /* read-only: kv_db_put only compares */
  bool gathers;    /* kv_db_insert goes to the database "now" */
  kv_db_union now; /* joins "now", a database in memory with the rows to store,
                      to the file */
  char *empty;     /* SQL that empties "now" */
  sqlite3_stmt *insert[KV_DB_N_TABLES][2]; /* into the file, or "now" */
  struct {
    const char *text; /* the literal, found by its address */
    sqlite3_stmt *stmt;
  } cache[KV_DB_STATEMENTS];
  int n_cached;
  kv_db_wait wait;     /* what to do while another process writes */
  int64_t waits_since; /* ms of CLOCK_MONOTONIC at which this wait began */
  bool notified;       /* wait.tell was called in this wait */
  char **word;         /* [n_words] texts of kv_db_word, freed by close */
  int n_words;
};

/* --- db_open.c: the schema ----------------------------------- */

/* Called by open. KV_OK if the file is our database with this program's schema,
 * or *empty. KV_INPUT: it is another program's, or has another schema. */
kv_rc kv_db_recognise(kv_db *db, bool *empty, kv_err *e);
/* Adds "now" to a connection. */
kv_rc kv_db_attach_now(kv_db *db, kv_err *e);

/* --- db_wait.c: while another process writes ------------------------------ */

/* Installs the handler that SQLite calls while the file is locked: it waits as
 * db->wait says, at most a minute. Cannot fail. */
void kv_db_wait_for_others(kv_db *db);
/* One turn of that wait. SQLite calls no handler while the journal mode
 * changes: call this with asked = 0, 1, .. before each attempt. False: give up.
 */
bool kv_db_wait_on(kv_db *db, int asked);

/* --- db_fail.c, db_sql.c: statements -------------------------------------- */

/* Turns SQLite's last error into a sentence and a code. doing: the verb of the
 * attempt ("open", "prepare", "use", "read"). Never returns KV_OK. */
kv_rc kv_db_fail(kv_db *db, const char *doing, kv_err *e);

/* A value for the letter b; the bytes remain the caller's. */
typedef struct kv_db_blob {
  size_t size; /* bytes */
  const void *data;
} kv_db_blob;

/* Prepares a literal (once: it is found again by its address) and binds its
 * marks in order, one argument for each letter of `types`:
 *   s const char *, NULL is null     i int64_t    n int, -1 is null
 *   d double, two marks as in kv_db_column; r double, only the readable one
 *   h const kv_digest *: 64 hex digits, NULL is null
 *   b const kv_db_blob *, not copied: run the statement before it is freed
 * *out is the connection's; step it by kv_db_row. */
kv_rc kv_db_bind(kv_db *db, sqlite3_stmt **out, kv_err *e, const char *sql,
                 const char *types, ...);
/* Binds and runs a statement that returns nothing. */
kv_rc kv_db_do(kv_db *db, kv_err *e, const char *sql, const char *types, ...);
/* Inserts a row, unless one with its key exists: members of the struct `from`
 * (NULL if the table has none), and one argument, by a letter of `types`, for
 * each other column, in the order of the list; none for the number of the row.
 */
kv_rc kv_db_insert(kv_db *db, kv_err *e, kv_db_id table, const void *from,
                   const char *types, ...);
/* Binds and runs a query. *out becomes the first column of its first row, and
 * is unchanged if there is no row or no integer. */
kv_rc kv_db_one(kv_db *db, int64_t *out, kv_err *e, const char *sql,
                const char *types, ...);
/* Steps to the next row. False at the end (*rc is KV_OK) or on failure; the
 * statement is then reset. */
bool kv_db_row(kv_db *db, sqlite3_stmt *s, kv_rc *rc, kv_err *e);
/* Ends a query before its last row. Returns rc if that is a failure, else fails
 * if memory ran out while a text was read. */
kv_rc kv_db_done(kv_db *db, sqlite3_stmt *s, kv_rc rc, kv_err *e);

/* Begins a transaction. kv_db_end commits it if rc is KV_OK, else rolls back,
 * and returns rc, or the failure of the commit. Not nested. */
kv_rc kv_db_begin(kv_db *db, kv_err *e);
kv_rc kv_db_end(kv_db *db, kv_rc rc, kv_err *e);

/* Stores rows, within a transaction unless db->still. gather empties "now",
 * which kv_db_insert then fills. settle compares it with the file (*found: they
 * contradict; *d says how). If they do not, and the file can be written, it
 * adds what the file lacks. Afterwards kv_db_insert goes to the file. d NULL:
 * nothing is compared. */
kv_rc kv_db_gather(kv_db *db, kv_err *e);
kv_rc kv_db_settle(kv_db *db, bool *found, kv_db_difference *d, kv_err *e);

/* --- db_value.c, db_read.c: values of the current row --------------------- */

/* at: the column, from 0. None fails: a value of the wrong type or out of range
 * is replaced by a harmless one, and its column is remembered until kv_db_sound
 * reports it as KV_INPUT. Call that after the last value of a query, with the
 * table's name and the run_id for the sentence (0: none). Texts are SQLite's,
 * valid until the next row. */
int64_t kv_db_whole(kv_db *db, sqlite3_stmt *s, int at, int64_t lo, int64_t hi);
int kv_db_int(kv_db *db, sqlite3_stmt *s, int at, int lo); /* up to INT32_MAX */
double kv_db_double(kv_db *db, sqlite3_stmt *s, int at);   /* from its bits */
double kv_db_number(kv_db *db, sqlite3_stmt *s, int at);   /* from a REAL */
const char *kv_db_text(kv_db *db, sqlite3_stmt *s, int at);   /* else "" */
const char *kv_db_object(kv_db *db, sqlite3_stmt *s, int at); /* JSON, or {} */
/* Index of the text among n names; 0 if it is none of them. */
int kv_db_name(kv_db *db, sqlite3_stmt *s, int at, int n,
               const char *const *names);
/* The measure named in a column; -1 if this program lacks it. That is no
 * damage: the caller skips it. */
int kv_db_measure(kv_db *db, sqlite3_stmt *s, int at);
void kv_db_digest(kv_db *db, sqlite3_stmt *s, int at, kv_digest *d);
/* Reads the members of a struct from a row of all columns of a table. */
void kv_db_take(kv_db *db, sqlite3_stmt *s, kv_db_id table, void *out);
kv_rc kv_db_sound(kv_db *db, const char *table, int64_t run, kv_err *e);

/* Writes n integers as 4 n bytes, little-endian on every machine. */
void kv_db_bytes(int n, const int32_t *x, unsigned char *out);
/* 64 lower-case hex digits; false, and zeros, for anything else and NULL. */
bool kv_digest_read(const char *hex, kv_digest *d);
/* The double of its stored bits, and back; any NaN has one pattern. */
double kv_db_real(int64_t bits);
int64_t kv_db_bits(double x);

/* --- db_key.c: digests, as 64 hex digits ---------------------------------- */

/* Adds the line "NAME VALUE" to a hash. Keys, subjects and names of pools are
 * hashes of such lines. */
void kv_db_line(kv_sha256 *h, const char *name, const char *value);
void kv_db_line_int(kv_sha256 *h, const char *name, int64_t value);
/* The code's part of a key: "revision N", or r->code. Returns out. */
const char *kv_db_code(const kv_result *r, char out[80]);
/* The key without code and arithmetic: rows with the same subject measure the
 * same cell with different code. */
void kv_db_subject(const kv_result *r, char out[65]);
/* Digest over the bits of the totals, of the measures of the run and its parts,
 * and of bytes of steps; not of squares, drift, scanned and means of steps. */
void kv_db_value(const kv_result *r, char out[65]);
/* How many measures and numbers of a run that digest counts. Digests of rows
 * with another number (run.measures) are not compared. */
int kv_db_measures(void);

/* --- rows of other tables, stored inside the caller's transaction --------- */

/* Inserts a trace; its request, answer_by and shape may be NULL. */
kv_rc kv_db_trace_row(kv_db *db, const char *name, const kv_digest *identity,
                      const kv_digest *request, const char *answer_by,
                      int n_tokens, const kv_shape *s, kv_err *e);
/* Inserts an environment; *id is its number. */
kv_rc kv_db_environment_row(kv_db *db, const kv_environment *v, int64_t *id,
                            kv_err *e);
/* *run: the run's number under a key; 0 if there is none. */
kv_rc kv_db_run_of(kv_db *db, const char *key, int64_t *run, kv_err *e);
/* Stores that the run was requested with r's basis and target. */
kv_rc kv_db_ask_row(kv_db *db, int64_t run, const kv_result *r, kv_err *e);
/* Deletes the layers of an unfinished row that the backend has kept. */
kv_rc kv_db_unkeep(kv_db *db, const char *key, const char *backend, kv_err *e);
/* Reads into r what was measured in a run, and its first confirmation (by
 * r->backend, if set). r's old arrays are not freed and its other names stay.
 * KV_INPUT: the file is damaged. */
kv_rc kv_db_load(kv_db *db, int64_t run, kv_result *r, kv_err *e);
/* The same text, kept until the database is closed; NULL: no memory. */
const char *kv_db_word(kv_db *db, const char *text);

/* --- what a run has in addition to its measures --------------------------- */

/* db_moments.c: the mean of each decode step. put stores the means of a new
 * run, whose r->step_mean is not NULL; load reads them into r. */
kv_rc kv_db_put_means(kv_db *db, int64_t run, const kv_result *r, kv_err *e);
kv_rc kv_db_load_means(kv_db *db, int64_t run, kv_result *r, kv_err *e);
/* db_layout.c: memory layouts, caches on the device, and the fate of tokens. */
kv_rc kv_db_put_layouts(kv_db *db, int64_t run, const kv_result *r, kv_err *e);

#endif
