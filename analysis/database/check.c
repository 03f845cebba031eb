/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of a database before anything in it is shown: every value is
 * of its column's type, every digest 64 hex digits, every number in its range,
 * params a JSON object. SQLite holds types and some of this for who writes
 * through it; a file from elsewhere may hold anything. All readers of
 * analysis/ rely on it. Cost: one scan of each table. The numbers of the
 * version are those that kvreplay writes into the head of its databases.
 */
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

enum { APPLICATION = 0x6b767270, VERSION_KNOWN = 2 };

static const char *const digests[] = {
    "identity", "digest",   "key",    "subject",      "journal",
    "state",    "output",   "value",  "scores",       "pool",
    "question", "platform", "answer", "model_digest", "request_digest"};

/* Of which sums are taken. */
#define MANY ((int64_t)1 << 48)

/* Whole numbers; others are of any size, bits of any value. */
static const struct {
  const char *column;
  int64_t lo, hi;
} ranges[] = {{"prompt_len", 0, INT_MAX}, {"n_tokens", 0, INT_MAX},
              {"budget", 0, INT_MAX},     {"arithmetic", 0, INT_MAX},
              {"revision", 0, INT_MAX},   {"part", 0, INT_MAX},
              {"layer", -1, INT_MAX},     {"head", -1, INT_MAX},
              {"lane", 0, INT_MAX},       {"bin", -1, 4095},
              {"first_step", 0, INT_MAX}, {"last_step", 0, INT_MAX},
              {"step", 0, INT_MAX},       {"threads", 0, INT_MAX},
              {"cores", 0, INT_MAX},      {"number", 0, INT_MAX},
              {"count", 0, INT64_MAX},    {"measures", 0, INT_MAX},
              {"n_layers", 0, INT_MAX},   {"n_heads", 0, INT_MAX},
              {"n_kv_heads", 0, INT_MAX}, {"d", 0, INT_MAX},
              {"d_v", 0, INT_MAX},        {"total", 0, 1},
              {"x", -1000, INT_MAX},      {"y", -1000, INT_MAX},
              {"width", 1, INT_MAX},      {"latent", 1, INT_MAX},
              {"hidden", 1, INT_MAX},     {"length", 1, INT_MAX}};

static bool is_digest(const char *column) {
  for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
    if (!strcmp(digests[i], column)) return true;
  return false;
}

/* One of a figure: a whole number or a real of which sums are taken, or whole
 * numbers of 32 bits. */
static void add_law_of_any(sqlite3_str *s, const char *c) {
  sqlite3_str_appendf(s,
                      "CASE typeof(\"%w\") WHEN 'text' THEN 0 WHEN 'real' THEN"
                      " abs(\"%w\") <= 1e300 WHEN 'blob' THEN"
                      " length(\"%w\") %% 4 = 0 ELSE \"%w\" BETWEEN 0 AND"
                      " %lld END",
                      c, c, c, c, (long long)MANY);
}

/* What a value that is not null must fulfil. */
static void add_law(sqlite3_str *s, const char *c, const char *type) {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
  bool whole = !strcmp(type, "INTEGER"), real = !strcmp(type, "REAL");
  bool blob = !strcmp(type, "BLOB");
  if (!strcmp(type, "ANY")) {
    add_law_of_any(s, c);
    return;
  }
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (!strcmp(ranges[i].column, c)) lo = ranges[i].lo, hi = ranges[i].hi;
  if (real) { /* not infinite, and what a figure can do sums with; text and
                 blobs are above every number */
    sqlite3_str_appendf(s, "\"%w\" BETWEEN -1e300 AND 1e300", c);
    return;
  }
  sqlite3_str_appendf(s, "typeof(\"%w\") = '%s'", c,
                      whole  ? "integer"
                      : blob ? "blob"
                             : "text");
  if (whole && (lo > INT64_MIN || hi < INT64_MAX))
    sqlite3_str_appendf(s, " AND \"%w\" BETWEEN %lld AND %lld", c,
                        (long long)lo, (long long)hi);
  else if (blob) /* of binary32 numbers, or integers of 32 bits */
    sqlite3_str_appendf(s, " AND length(\"%w\") %% 4 = 0", c);
  else if (is_digest(c))
    sqlite3_str_appendf(s,
                        " AND length(CAST(\"%w\" AS BLOB)) = 64 AND \"%w\""
                        " NOT GLOB '*[^0-9a-f]*'",
                        c, c);
  else if (!strcmp(c, "params"))
    sqlite3_str_appendf(s,
                        " AND CASE WHEN json_valid(\"%w\") THEN"
                        " json_type(\"%w\") = 'object' ELSE 0 END",
                        c, c);
}

/* "SELECT CASE WHEN the first column is wrong THEN its name ... FROM table".
 * NULL without a table, or where SQLite failed. */
static char *question(sqlite3 *db, const char *schema, const char *table,
                      bool *there) {
  sqlite3_str *s = sqlite3_str_new(db);
  sqlite3_stmt *info = NULL;
  char *ask = sqlite3_mprintf("PRAGMA %s.table_info(%s)", schema, table);
  int step = SQLITE_NOMEM, columns = 0;
  if (ask) sqlite3_prepare_v2(db, ask, -1, &info, NULL);
  sqlite3_str_appendall(s, "SELECT CASE");
  while (info && (step = sqlite3_step(info)) == SQLITE_ROW) {
    const char *c = (const char *)sqlite3_column_text(info, 1);
    const char *type = (const char *)sqlite3_column_text(info, 2);
    if (!c || !type) break;
    columns++;
    sqlite3_str_appendall(s, " WHEN ");
    if (!sqlite3_column_int(info, 3)) /* may be null */
      sqlite3_str_appendf(s, "\"%w\" IS NOT NULL AND ", c);
    sqlite3_str_appendall(s, "NOT (");
    add_law(s, c, type);
    sqlite3_str_appendf(s, ") THEN '%q'", c);
  }
  sqlite3_finalize(info);
  sqlite3_free(ask);
  sqlite3_str_appendf(s, " END AS wrong FROM %s.%s", schema, table);
  ask = sqlite3_str_finish(s);
  *there = columns || step != SQLITE_DONE;
  if (step == SQLITE_DONE && columns) return ask;
  sqlite3_free(ask);
  return NULL;
}

static int tell(const char *path, const char *table, const char *column,
                long long row) {
  const char *what = is_digest(column) ? "has no digest (64 hex digits)"
                                       : "has a value that no kvreplay writes";
  return kv_tell(KV_EXIT_INPUT,
                 "%s is damaged: column %s of table %s %s in row %lld: take "
                 "another copy of it, or run the cells again",
                 path, column, table, what, row);
}

/* Tells of the first row for which the question has an answer. Whether there is
 * one is asked first, as that takes no row out of SQLite. */
static int find(sqlite3 *db, const char *sql, const char *table,
                const char *path) {
  char *some =
      sqlite3_mprintf("SELECT 1 FROM (%s) WHERE wrong IS NOT NULL", sql);
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK, step = SQLITE_ERROR;
  if (some && !sqlite3_prepare_v2(db, some, -1, &s, NULL))
    step = sqlite3_step(s);
  sqlite3_finalize(s);
  s = NULL;
  sqlite3_free(some);
  if (step == SQLITE_ROW && sqlite3_prepare_v2(db, sql, -1, &s, NULL))
    step = SQLITE_ERROR;
  for (long long row = 1; !rc && step == SQLITE_ROW; row++) {
    step = sqlite3_step(s);
    const char *bad =
        step == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (bad) rc = tell(path, table, bad, row);
  }
  if (!rc && step != SQLITE_DONE) rc = kv_results_fail(db, path);
  sqlite3_finalize(s);
  return rc;
}

static int check_table(sqlite3 *db, const char *schema, const char *table,
                       const char *path) {
  bool there;
  char *sql = question(db, schema, table, &there);
  if (!there)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is damaged: it has no table %s: take another copy of it",
                   path, table);
  int rc = sql ? find(db, sql, table, path) : kv_results_fail(db, path);
  sqlite3_free(sql);
  return rc;
}

static int check_rows(sqlite3 *db, const char *schema, const char *path) {
  int rc = KV_EXIT_OK;
  for (int i = 0; kv_results_tables[i] && !rc; i++)
    rc = check_table(db, schema, kv_results_tables[i], path);
  return rc;
}

/* Any number may be the answer. */
static bool pragma(sqlite3 *db, const char *schema, const char *name, int *n) {
  sqlite3_stmt *s = NULL;
  char *sql = sqlite3_mprintf("PRAGMA %s.%s", schema, name);
  bool answered = sql && !sqlite3_prepare_v2(db, sql, -1, &s, NULL) &&
                  sqlite3_step(s) == SQLITE_ROW;
  if (answered) *n = sqlite3_column_int(s, 0);
  sqlite3_finalize(s);
  sqlite3_free(sql);
  return answered;
}

int kv_results_check(sqlite3 *db, const char *schema, const char *path,
                     bool write) {
  int application = 0, version = 0;
  if (!pragma(db, schema, "application_id", &application) ||
      !pragma(db, schema, "user_version", &version))
    return kv_results_fail(db, path);
  if (application != APPLICATION)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is not a kvreplay database: make one with 'kvreplay "
                   "run ... --db FILE'",
                   path);
  if (version > VERSION_KNOWN)
    return kv_tell(KV_EXIT_INPUT,
                   "%s was written by a later kvreplay (version %d, this "
                   "kvreport knows %d): update kvreport",
                   path, version, VERSION_KNOWN);
  if (version < 1)
    return kv_tell(KV_EXIT_INPUT,
                   "%s is of version %d, which no kvreplay writes: restore it "
                   "from a copy",
                   path, version);
  if (version < VERSION_KNOWN && write)
    return kv_tell(KV_EXIT_INPUT,
                   "%s was written by an earlier kvreplay (version %d): name a "
                   "new file, and this one among those to merge",
                   path, version);
  int rc = version < VERSION_KNOWN ? kv_results_forward(db, schema, path)
                                   : KV_EXIT_OK;
  return rc ? rc : check_rows(db, schema, path);
}
