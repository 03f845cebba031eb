/* SPDX-License-Identifier: Apache-2.0
 *
 * One statement, bound and run. Every statement is a literal, prepared once
 * and found again by its address.
 */
#include "sim/store/db_private.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

double kv_db_real(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

int64_t kv_db_bits(double x) {
  int64_t bits = 0x7ff8000000000000;
  if (!isnan(x)) memcpy(&bits, &x, sizeof x);
  return bits;
}

static sqlite3_stmt *prepare(kv_db *db, const char *sql) {
  sqlite3_stmt *s = NULL;
  for (int i = 0; i < db->n_cached; i++)
    if (db->cache[i].text == sql) return db->cache[i].stmt;
  assert(db->n_cached < KV_DB_STATEMENTS && "room for every literal");
  if (sqlite3_prepare_v3(db->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL))
    return NULL;
  db->cache[db->n_cached].text = sql;
  db->cache[db->n_cached++].stmt = s;
  return s;
}

static int bind_digest(sqlite3_stmt *s, int at, const kv_digest *d) {
  char hex[65];
  if (!d) return sqlite3_bind_null(s, at);
  kv_digest_hex(d, hex);
  return sqlite3_bind_text(s, at, hex, 64, SQLITE_TRANSIENT);
}

static int bind_blob(sqlite3_stmt *s, int at, const kv_db_blob *b) {
  return sqlite3_bind_blob64(s, at, b->data, b->size, SQLITE_STATIC);
}

static int bind_double(sqlite3_stmt *s, int at, double x) {
  int bad = isnan(x) ? sqlite3_bind_null(s, at) : sqlite3_bind_double(s, at, x);
  return bad ? bad : sqlite3_bind_int64(s, at + 1, kv_db_bits(x));
}

static int bind_int(sqlite3_stmt *s, int at, int n) {
  return n == -1 ? sqlite3_bind_null(s, at) : sqlite3_bind_int(s, at, n);
}

/* Binds a member of the struct at `from`. */
static int bind_member(sqlite3_stmt *s, int at, const kv_db_column *c,
                       const char *from) {
  int64_t whole;
  double real;
  int n;
  switch (c->type) {
  case 'n':
    memcpy(&n, from + c->offset, sizeof n);
    return sqlite3_bind_int(s, at, n);
  case 'd':
    memcpy(&real, from + c->offset, sizeof real);
    return bind_double(s, at, real);
  default:
    memcpy(&whole, from + c->offset, sizeof whole);
    return c->type == 'o' && whole < 0 ? sqlite3_bind_null(s, at)
                                       : sqlite3_bind_int64(s, at, whole);
  }
}

/* Binds the next argument to mark *at, which is then the last one bound. */
static int bind_letter(sqlite3_stmt *s, int *at, char letter, va_list *v) {
  switch (letter) {
  case 's':
    return sqlite3_bind_text(s, *at, va_arg(*v, const char *), -1,
                             SQLITE_TRANSIENT);
  case 'i':
    return sqlite3_bind_int64(s, *at, va_arg(*v, int64_t));
  case 'n':
    return bind_int(s, *at, va_arg(*v, int));
  case 'd':
    return bind_double(s, (*at)++, va_arg(*v, double));
  case 'r':
    return sqlite3_bind_double(s, *at, va_arg(*v, double));
  case 'h':
    return bind_digest(s, *at, va_arg(*v, const kv_digest *));
  case 'b':
    return bind_blob(s, *at, va_arg(*v, const kv_db_blob *));
  default:
    assert(false && "a letter of kv_db_bind");
    return SQLITE_MISUSE;
  }
}

static int bind_all(sqlite3_stmt *s, const char *types, va_list *v) {
  int bad = 0, at = 1;
  for (; *types && !bad; types++, at++) bad = bind_letter(s, &at, *types, v);
  assert((bad || at == sqlite3_bind_parameter_count(s) + 1) &&
         "one value a mark");
  return bad;
}

static int bind_row(sqlite3_stmt *s, const kv_db_column *c, const char *from,
                    const char *types, va_list *v) {
  int bad = 0, at = 1, marks = sqlite3_bind_parameter_count(s);
  for (; at <= marks && !bad; c++, at++) {
    int before = at;
    if (c->rule == KV_DB_NUMBER)
      bad = sqlite3_bind_null(s, at);
    else if (c->type) {
      bad = bind_member(s, at, c, from);
      at += c->type == 'd';
    } else {
      bad = bind_letter(s, &at, *types++, v);
      c += at > before; /* the column of its bits */
    }
  }
  assert((bad || !*types) && "one value a column");
  return bad;
}

static kv_rc bind_list(kv_db *db, sqlite3_stmt **out, kv_err *e,
                       const char *sql, const char *types, va_list *v) {
  *out = prepare(db, sql);
  if (!*out) return kv_db_fail(db, "use", e);
  sqlite3_reset(*out);
  if (bind_all(*out, types, v)) return kv_db_fail(db, "use", e);
  return KV_OK;
}

kv_rc kv_db_bind(kv_db *db, sqlite3_stmt **out, kv_err *e, const char *sql,
                 const char *types, ...) {
  va_list v;
  kv_rc rc;
  va_start(v, types);
  rc = bind_list(db, out, e, sql, types, &v);
  va_end(v);
  return rc;
}

kv_rc kv_db_do(kv_db *db, kv_err *e, const char *sql, const char *types, ...) {
  sqlite3_stmt *s;
  va_list v;
  kv_rc rc;
  va_start(v, types);
  rc = bind_list(db, &s, e, sql, types, &v);
  va_end(v);
  if (rc) return rc;
  while (kv_db_row(db, s, &rc, e)) {
  }
  return rc;
}

static sqlite3_stmt *inserting(kv_db *db, kv_db_id table) {
  sqlite3_stmt **at = &db->insert[table][db->gathers];
  if (*at) return *at;
  char *sql =
      kv_db_insert_sql(db->gathers ? "now" : "main", kv_db_table_list[table]);
  if (sql)
    sqlite3_prepare_v3(db->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, at, NULL);
  sqlite3_free(sql);
  return *at;
}

kv_rc kv_db_insert(kv_db *db, kv_err *e, kv_db_id table, const void *from,
                   const char *types, ...) {
  sqlite3_stmt *s = inserting(db, table);
  va_list v;
  kv_rc rc;
  if (!s) return kv_db_fail(db, "use", e);
  sqlite3_reset(s);
  va_start(v, types);
  int bad = bind_row(s, kv_db_table_list[table]->column, from, types, &v);
  va_end(v);
  if (bad) return kv_db_fail(db, "use", e);
  kv_db_row(db, s, &rc, e);
  return rc;
}

kv_rc kv_db_one(kv_db *db, int64_t *out, kv_err *e, const char *sql,
                const char *types, ...) {
  sqlite3_stmt *s;
  va_list v;
  kv_rc rc;
  va_start(v, types);
  rc = bind_list(db, &s, e, sql, types, &v);
  va_end(v);
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  if (sqlite3_column_type(s, 0) == SQLITE_INTEGER)
    *out = sqlite3_column_int64(s, 0);
  return kv_db_done(db, s, KV_OK, e);
}

bool kv_db_row(kv_db *db, sqlite3_stmt *s, kv_rc *rc, kv_err *e) {
  int step = sqlite3_step(s);
  *rc = KV_OK;
  if (step == SQLITE_ROW) return true;
  if (step != SQLITE_DONE) *rc = kv_db_fail(db, "use", e);
  sqlite3_reset(s);
  return false;
}

kv_rc kv_db_done(kv_db *db, sqlite3_stmt *s, kv_rc rc, kv_err *e) {
  bool bad = sqlite3_reset(s);
  return rc || !bad ? rc : kv_db_fail(db, "use", e);
}

kv_rc kv_db_begin(kv_db *db, kv_err *e) {
  if (sqlite3_exec(db->sql, "BEGIN IMMEDIATE", NULL, NULL, NULL))
    return kv_db_fail(db, "use", e);
  return KV_OK;
}

kv_rc kv_db_end(kv_db *db, kv_rc rc, kv_err *e) {
  db->gathers = false;
  if (!rc && !sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL)) return KV_OK;
  if (!rc) rc = kv_db_fail(db, "use", e);
  /* Fails, harmlessly, if SQLite has already rolled back by itself. */
  sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
  return rc;
}

kv_rc kv_db_gather(kv_db *db, kv_err *e) {
  db->gathers = true;
  if (sqlite3_exec(db->sql, db->empty, NULL, NULL, NULL))
    return kv_db_fail(db, "use", e);
  return KV_OK;
}

kv_rc kv_db_settle(kv_db *db, bool *found, kv_db_difference *d, kv_err *e) {
  int bad = 0;
  db->gathers = *found = false;
  if (d) bad = kv_db_differs(&db->now, "before", "now", found, d);
  if (!bad && !*found && !db->still) bad = kv_db_join(&db->now);
  return bad ? kv_db_fail(db, "use", e) : KV_OK;
}

const char *kv_db_word(kv_db *db, const char *text) {
  char **list;
  for (int i = 0; i < db->n_words; i++)
    if (!strcmp(db->word[i], text)) return db->word[i];
  list = realloc(db->word, (size_t)(db->n_words + 1) * sizeof *list);
  if (!list) return NULL;
  db->word = list;
  list[db->n_words] = strdup(text);
  return list[db->n_words] ? list[db->n_words++] : NULL;
}
