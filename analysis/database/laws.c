/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold for every value of a table: it has its column's type, digests
 * are 64 hex digits, numbers are in range, params is a JSON object. Exact bits
 * (mean_bits and the like) are not checked: any integer is valid, and only
 * SQLite compares and copies them. One SQL function gets all values of a row
 * and says whether one breaks its law, so a table is scanned once and no row
 * leaves SQLite.
 */
#include "analysis/database/laws.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

/* Limit for integers that are summed. */
#define MANY ((int64_t)1 << 48)

/* Ranges of whole numbers that are no member of a struct; members get theirs
 * from the list of columns. Others may have any size. */
static const struct {
  const char *column;
  int64_t lo, hi;
} ranges[] = {{"prompt_len", 0, INT_MAX}, {"n_tokens", 0, INT_MAX},
              {"budget", 0, INT_MAX},     {"arithmetic", 0, INT_MAX},
              {"revision", 0, INT_MAX},   {"part", 0, INT_MAX},
              {"layer", -1, INT_MAX},     {"head", -1, INT_MAX},
              {"lane", 0, INT_MAX},       {"bin", -1, 4095},
              {"threads", 0, INT_MAX},    {"cores", 0, INT_MAX},
              {"number", 0, INT_MAX},     {"measures", 0, INT_MAX},
              {"n_layers", 0, INT_MAX},   {"n_heads", 0, INT_MAX},
              {"n_kv_heads", 0, INT_MAX}, {"d", 0, INT_MAX},
              {"d_v", 0, INT_MAX},        {"total", 0, 1},
              {"x", -1000, INT_MAX},      {"y", -1000, INT_MAX},
              {"width", 1, INT_MAX},      {"latent", 1, INT_MAX},
              {"hidden", 1, INT_MAX},     {"length", 1, INT_MAX}};

/* Kinds of values in a column. */
typedef enum kind { WHOLE, REAL, BLOB, TEXT, DIGEST, OBJECT, ANY } kind;

typedef struct law {
  const char *column;
  kind kind;
  bool null; /* may be null */
  int64_t lo, hi;
} law;

/* The laws of a table, and the state of the scan: rows so far; the first column
 * that broke its law, or NULL. */
enum { COLUMNS = 48 };
typedef struct laws {
  law law[COLUMNS];
  int n;
  long long row;
  const law *bad;
} laws;

/* s is NULL if memory ran out. */
static bool is_hex(const unsigned char *s, int n) {
  for (int i = 0; s && i < n; i++)
    if (!s[i] || !strchr("0123456789abcdef", s[i])) return false;
  return s != NULL;
}

static bool is(const unsigned char *s, const char *word) {
  return s && !strcmp((const char *)s, word);
}

/* Finite, and small enough for sums in figures. */
static bool real_holds(sqlite3_value *v) {
  double x = sqlite3_value_double(v);
  return x >= -1e300 && x <= 1e300;
}

static bool whole_holds(sqlite3_value *v, int64_t lo, int64_t hi) {
  int64_t x = sqlite3_value_int64(v);
  return x >= lo && x <= hi;
}

/* v is what asked[] gives. Blobs consist of 32-bit numbers. ANY is a value of a
 * figure: an integer or a real that can be summed, or such a blob. */
static bool holds(const law *it, sqlite3_value *v) {
  int type = sqlite3_value_type(v);
  if (type == SQLITE_NULL) return it->null;
  switch (it->kind) {
  case WHOLE:
    return type == SQLITE_INTEGER && whole_holds(v, it->lo, it->hi);
  case REAL:
    return (type == SQLITE_FLOAT || type == SQLITE_INTEGER) && real_holds(v);
  case BLOB:
    return sqlite3_value_int64(v) % 4 == 0;
  case TEXT:
    return type == SQLITE_TEXT;
  case DIGEST:
    return type == SQLITE_TEXT && sqlite3_value_bytes(v) == 64 &&
           is_hex(sqlite3_value_text(v), 64);
  case OBJECT:
    return is(sqlite3_value_text(v), "object");
  case ANY:
    return type == SQLITE_INTEGER ? whole_holds(v, 0, MANY)
           : type == SQLITE_FLOAT
               ? real_holds(v)
               : type == SQLITE_BLOB && sqlite3_value_bytes(v) % 4 == 0;
  }
  return false;
}

/* broken(values of a row): true if one breaks its law. */
static void broken(sqlite3_context *c, int n, sqlite3_value **v) {
  laws *all = sqlite3_user_data(c);
  all->row++;
  for (int i = 0; i < n && i < all->n && !all->bad; i++)
    if (!holds(&all->law[i], v[i])) all->bad = &all->law[i];
  sqlite3_result_int(c, all->bad != NULL);
}

/* A digest's column declares the length 64, or refers to a digest. */
static bool is_digest(const kv_db_column *c) {
  return strstr(c->sql, "= 64") ||
         (!strncmp(c->sql, "TEXT", 4) && strstr(c->sql, "REFERENCES") &&
          strcmp(c->name, "name"));
}

static law law_of(const kv_db_column *c) {
  static const char *const type[ANY + 1] = {
      [WHOLE] = "INTEGER", [REAL] = "REAL", [BLOB] = "BLOB", [ANY] = "ANY"};
  law it = {c->name, TEXT, !strstr(c->sql, "NOT NULL"), INT64_MIN, INT64_MAX};
  for (int k = 0; k <= ANY; k++)
    if (type[k] && !strncmp(c->sql, type[k], strlen(type[k])))
      it.kind = (kind)k;
  if (is_digest(c)) it.kind = DIGEST;
  if (!strcmp(c->name, "params")) it.kind = OBJECT;
  if (c->type && c->type != 'd') it.lo = c->least;
  if (c->type == 'n') it.hi = INT_MAX;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (!strcmp(ranges[i].column, c->name))
      it.lo = ranges[i].lo, it.hi = ranges[i].hi;
  return it;
}

static void read_laws(const kv_db_table *t, laws *all) {
  const kv_db_column *c = t->column;
  for (; c->name && all->n < COLUMNS; c++) all->law[all->n++] = law_of(c);
  assert(!c->name && "room for every column");
}

/* What broken() gets instead of a column's value: for blobs their length, so
 * that their bytes stay on the disk (1 for other types); for JSON its type. */
static const char *const asked[ANY + 1] = {
    [BLOB] = "%s CASE typeof(%s) WHEN 'blob' THEN length(%s)"
             " WHEN 'null' THEN NULL ELSE 1 END",
    [OBJECT] = "%s CASE WHEN typeof(%s) = 'text' AND json_valid(%s)"
               " THEN json_type(%s) ELSE '' END"};

/* "SELECT 1 FROM table WHERE broken(its columns)": NULL if memory ran out. */
static char *question(sqlite3 *db, const char *schema, const char *table,
                      const laws *all) {
  sqlite3_str *s = sqlite3_str_new(db);
  sqlite3_str_appendf(s, "SELECT 1 FROM %s.%s WHERE broken(", schema, table);
  for (int i = 0; i < all->n; i++) {
    const char *c = all->law[i].column, *how = asked[all->law[i].kind];
    sqlite3_str_appendf(s, how ? how : "%s %s", i ? "," : "", c, c, c);
  }
  sqlite3_str_appendall(s, ")");
  return sqlite3_str_finish(s);
}

static int fail(sqlite3 *db, const char *path) {
  return path ? kv_results_fail(db, path) : KV_EXIT_RESOURCE;
}

static int tell(const char *path, const char *table, const laws *all) {
  if (!path) return KV_EXIT_INPUT;
  const char *what = all->bad->kind == DIGEST ? "has no digest (64 hex digits)"
                                              : "has an invalid value";
  return kv_tell(KV_EXIT_INPUT,
                 "%s is damaged: column %s of table %s %s in row %lld; restore "
                 "it from a copy, or run the cells again",
                 path, all->bad->column, table, what, all->row);
}

/* Finds the first row that breaks a law, and reports it. */
static int find(sqlite3 *db, const char *schema, const char *table, laws *all,
                const char *path) {
  sqlite3_stmt *s = NULL;
  char *sql = question(db, schema, table, all);
  int step = SQLITE_ERROR;
  if (sql &&
      !sqlite3_create_function_v2(db, "broken", -1,
                                  SQLITE_UTF8 | SQLITE_DIRECTONLY, all, broken,
                                  NULL, NULL, NULL) &&
      !sqlite3_prepare_v2(db, sql, -1, &s, NULL))
    step = sqlite3_step(s);
  int rc = step == SQLITE_ROW    ? tell(path, table, all)
           : step == SQLITE_DONE ? KV_EXIT_OK
                                 : fail(db, path);
  sqlite3_finalize(s);
  sqlite3_free(sql);
  sqlite3_create_function_v2(db, "broken", -1, SQLITE_UTF8, NULL, NULL, NULL,
                             NULL, NULL); /* its data are the caller's */
  return rc;
}

int kv_laws_check(sqlite3 *db, const char *schema, const kv_db_table *table,
                  const char *path) {
  laws all = {.n = 0};
  read_laws(table, &all);
  return find(db, schema, table->name, &all, path);
}
