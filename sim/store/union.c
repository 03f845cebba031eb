/* SPDX-License-Identifier: Apache-2.0
 *
 * SQL made from the list of tables.h. In a query s is a row of `from`, d one of
 * `to`. CROSS JOIN keeps the order of its tables: `from` is scanned, `to` is
 * looked up by its keys.
 */
#include "sim/store/union.h"

#include <stdio.h>
#include <string.h>

/* Columns that number rows within a file, and what names these in every file.
 */
static const struct {
  const char *column, *table, *name;
} numbers[] = {{"run_id", "run", "key"},
               {"environment_id", "environment", "digest"},
               {"evaluation_id", "evaluation", "key"}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* Index of the number that a column refers to; NUMBERS: none. */
static int number_of(const kv_db_column *c) {
  int i = 0;
  while (i < NUMBERS &&
         (c->rule == KV_DB_NUMBER || strcmp(c->name, numbers[i].column)))
    i++;
  return i;
}

static bool has(const kv_db_table *t, const char *column) {
  const kv_db_column *c = t->column;
  while (c->name && strcmp(c->name, column)) c++;
  return c->name != NULL;
}

static bool has_word(const kv_db_column *c, const char *word) {
  return strstr(c->sql, word) != NULL;
}

static char *text_of(sqlite3_str *s) {
  bool bad = sqlite3_str_errcode(s);
  char *text = sqlite3_str_finish(s);
  if (!bad) return text;
  sqlite3_free(text);
  return NULL;
}

/* --- the schema ----------------------------------------------------------- */

static void add_key(sqlite3_str *s, const kv_db_table *t) {
  const char *before =
      t->column->rule == KV_DB_NUMBER ? ", UNIQUE (" : ", PRIMARY KEY (";
  bool any = false;
  for (const kv_db_column *c = t->column; c->name; c++)
    if (c->rule == KV_DB_KEY) {
      sqlite3_str_appendf(s, "%s%s", any ? ", " : before, c->name);
      any = true;
    }
  if (any) sqlite3_str_appendall(s, ")");
}

static void add_table(sqlite3_str *s, const char *database,
                      const kv_db_table *t) {
  sqlite3_str_appendf(s, "CREATE TABLE %s.%s(", database, t->name);
  for (const kv_db_column *c = t->column; c->name; c++) {
    sqlite3_str_appendf(s, "%s%s %s", c == t->column ? "" : ", ", c->name,
                        c->sql);
    if (c->type == 'd')
      sqlite3_str_appendf(s, ", %s_bits INTEGER NOT NULL", c->name);
  }
  add_key(s, t);
  if (t->rest) sqlite3_str_appendf(s, ", %s", t->rest);
  sqlite3_str_appendf(s, ") STRICT%s;", t->rows ? "" : ", WITHOUT ROWID");
}

char *kv_db_schema_sql(const char *database) {
  sqlite3_str *s = sqlite3_str_new(NULL);
  for (int i = 0; i < KV_DB_N_TABLES; i++)
    add_table(s, database, kv_db_table_list[i]);
  return text_of(s);
}

char *kv_db_insert_sql(const char *database, const kv_db_table *t) {
  sqlite3_str *s = sqlite3_str_new(NULL);
  sqlite3_str_appendf(s, "INSERT INTO %s.%s VALUES (", database, t->name);
  for (const kv_db_column *c = t->column; c->name; c++)
    sqlite3_str_appendf(s, "%s?%s", c == t->column ? "" : ",",
                        c->type == 'd' ? ",?" : "");
  sqlite3_str_appendall(s, ") ON CONFLICT DO NOTHING");
  return text_of(s);
}

/* --- rows of both --------------------------------------------------------- */

/* The tables of a query: s, and for each small integer in s the row that it
 * refers to, in `from` and in `to`. */
static void add_rows(sqlite3_str *s, const kv_db_union *u,
                     const kv_db_table *t) {
  sqlite3_str_appendf(s, " FROM %s.%s s", u->from, t->name);
  for (const kv_db_column *c = t->column; c->name; c++) {
    int i = number_of(c);
    if (i == NUMBERS) continue;
    const char *of = numbers[i].table, *name = numbers[i].name;
    sqlite3_str_appendf(s,
                        " CROSS JOIN %s.%s from_%s ON from_%s.%s = s.%s"
                        " CROSS JOIN %s.%s to_%s ON to_%s.%s = from_%s.%s",
                        u->from, of, of, of, c->name, c->name, u->to, of, of,
                        of, name, of, name);
  }
}

/* The value of a column, as `to` stores it. */
static void add_value(sqlite3_str *s, const kv_db_column *c) {
  int i = number_of(c);
  if (i == NUMBERS)
    sqlite3_str_appendf(s, "s.%s", c->name);
  else
    sqlite3_str_appendf(s, "to_%s.%s", numbers[i].table, c->name);
}

/* --- joining -------------------------------------------------------------- */

/* What a column becomes in an existing row; NULL: it stays. */
static const char *becomes(const kv_db_column *c) {
  switch ((kv_db_rule)c->rule) {
  case KV_DB_SAME:
  case KV_DB_ANY:
    return c->type || has_word(c, "NOT NULL") ? NULL
                                              : "coalesce(d.%s, excluded.%s)";
  case KV_DB_LESSER:
    return "min(d.%s, excluded.%s)";
  case KV_DB_GREATER:
    return "max(d.%s, excluded.%s)";
  case KV_DB_FOLLOWS: /* only run.value */
    return "iif(excluded.measures > d.measures, excluded.%s, d.%s)";
  default:
    return NULL;
  }
}

/* "SET c = .., c = .. WHERE d.c IS NOT .. OR d.c IS NOT ..": a row that would
 * not change is not written. */
static void add_changes(sqlite3_str *s, const kv_db_table *t) {
  sqlite3_str *where = sqlite3_str_new(NULL);
  bool any = false;
  for (const kv_db_column *c = t->column; c->name; c++) {
    const char *to = becomes(c);
    if (!to) continue;
    sqlite3_str_appendf(s, any ? ", %s = " : " DO UPDATE SET %s = ", c->name);
    sqlite3_str_appendf(s, to, c->name, c->name);
    sqlite3_str_appendf(where, any ? " OR d.%s IS NOT " : " WHERE d.%s IS NOT ",
                        c->name);
    sqlite3_str_appendf(where, to, c->name, c->name);
    any = true;
  }
  char *text = text_of(where);
  sqlite3_str_appendall(s, !any ? " DO NOTHING" : text ? text : "?");
  sqlite3_free(text);
}

static char *join_sql(const kv_db_union *u, const kv_db_table *t) {
  sqlite3_str *s = sqlite3_str_new(NULL);
  const char *comma = "";
  sqlite3_str_appendf(s, "INSERT INTO %s.%s AS d (", u->to, t->name);
  for (const kv_db_column *c = t->column; c->name; c++) {
    if (c->rule == KV_DB_NUMBER) continue;
    sqlite3_str_appendf(s, "%s%s", comma, c->name);
    if (c->type == 'd') sqlite3_str_appendf(s, ",%s_bits", c->name);
    comma = ",";
  }
  comma = ") SELECT ";
  for (const kv_db_column *c = t->column; c->name; c++) {
    if (c->rule == KV_DB_NUMBER) continue;
    sqlite3_str_appendall(s, comma);
    add_value(s, c);
    if (c->type == 'd') sqlite3_str_appendf(s, ",s.%s_bits", c->name);
    comma = ",";
  }
  add_rows(s, u, t);
  sqlite3_str_appendall(s, " WHERE true ON CONFLICT");
  add_changes(s, t);
  return text_of(s);
}

/* Prepares a text once, and frees it; NULL: see SQLite's error. */
static sqlite3_stmt *prepared(kv_db_union *u, sqlite3_stmt **at, char *sql) {
  if (!*at && sql)
    sqlite3_prepare_v3(u->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, at, NULL);
  sqlite3_free(sql);
  return *at;
}

static int code_of(sqlite3 *db) {
  int code = sqlite3_errcode(db);
  return code && code != SQLITE_ROW && code != SQLITE_DONE ? code
                                                           : SQLITE_NOMEM;
}

int kv_db_join(kv_db_union *u) {
  for (int i = 0; i < KV_DB_UNION; i++) {
    const kv_db_table *t = kv_db_table_list[i];
    sqlite3_stmt *s =
        prepared(u, &u->join[i], u->join[i] ? NULL : join_sql(u, t));
    if (!s) return code_of(u->sql);
    sqlite3_step(s);
    int bad = sqlite3_reset(s);
    if (bad) return bad;
  }
  return SQLITE_OK;
}

/* --- comparing ------------------------------------------------------------ */

/* Names whose row it is. */
static void add_owner(sqlite3_str *s, const kv_db_union *u,
                      const kv_db_table *t) {
  if (has(t, "pool"))
    sqlite3_str_appendall(s, "printf('the pool %.16s', s.pool)");
  else if (has(t, "run_id"))
    sqlite3_str_appendf(s,
                        "(SELECT printf('%%s on %%s', r.spec, t.name) FROM"
                        " %s.run r JOIN %s.trace t USING (identity)"
                        " WHERE r.run_id = s.run_id)",
                        u->from, u->from);
  else if (has(t, "evaluation_id"))
    sqlite3_str_appendf(s,
                        "(SELECT printf('%%s%%s on question %%s of %%s (%%s)',"
                        " method, iif(target = '', '', ' at ' || target),"
                        " number, item, task) FROM %s.evaluation e JOIN"
                        " %s.question USING (question)"
                        " WHERE e.evaluation_id = s.evaluation_id)",
                        u->from, u->from);
  else /* budget */
    sqlite3_str_appendf(s,
                        "(SELECT printf('%%s on %%s at %%s:%%s', s.method,"
                        " name, s.basis, s.target) FROM %s.trace t"
                        " WHERE t.identity = s.identity)",
                        u->from);
}

/* Names which of its owner's rows it is: " of layer 2, lane 0". */
static void add_place(sqlite3_str *s, const kv_db_table *t) {
  const char *before = " of ";
  sqlite3_str_appendall(s, "''");
  for (const kv_db_column *c = t->column; c->name; c++) {
    if (c->rule != KV_DB_KEY || number_of(c) < NUMBERS ||
        !strcmp(c->name, "key") || !strcmp(c->name, "pool"))
      continue;
    sqlite3_str_appendf(s, " || '%s%s ' || s.%s", before, c->name, c->name);
    before = ", ";
  }
}

/* " WHEN it differs THEN 'NAME of PLACE is 5 there and 6 here'". ?1 and ?2 are
 * the words `there` and `here`; of digests only the first digits are shown. */
static void add_case(sqlite3_str *s, const kv_db_table *t,
                     const kv_db_column *c) {
  const char *n = c->name, *bits = c->type == 'd' ? "_bits" : "";
  if (c->rule == KV_DB_FOLLOWS)
    sqlite3_str_appendf(s, " WHEN d.measures = s.measures AND d.%s IS NOT s.%s",
                        n, n);
  else
    sqlite3_str_appendf(s, " WHEN d.%s%s %s s.%s%s", n, bits,
                        c->rule == KV_DB_SAME ? "!=" : "IS NOT", n, bits);
  sqlite3_str_appendall(s, " THEN printf('%s%s is %s %s and %s %s', ");
  if (!strcmp(n, "value") && !has(t, "measures"))
    sqlite3_str_appendall(s, "s.name, '', ");
  else {
    sqlite3_str_appendf(s, "'%s', ", n);
    add_place(s, t);
    sqlite3_str_appendall(s, ", ");
  }
  for (int i = 0; i < 2; i++)
    sqlite3_str_appendf(s, "told(%s.%s, %s.%s), ?%d%s", i ? "s" : "d", n,
                        i ? "d" : "s", n, i + 1, i ? ")" : ", ");
}

static bool compared(const kv_db_column *c, bool last) {
  return last ? c->rule == KV_DB_FOLLOWS
              : c->rule == KV_DB_SAME || c->rule == KV_DB_EQUAL;
}

/* NULL also if the table has nothing to compare. last: columns that follow from
 * other rows, which are compared first. */
static char *differ_sql(const kv_db_union *u, const kv_db_table *t, bool last) {
  sqlite3_str *s = sqlite3_str_new(NULL);
  const char *and = " ON ";
  bool any = false;
  sqlite3_str_appendf(s, "SELECT what, %s, ",
                      has(t, "journal") && has(t, "layer") ? "layer" : "-1");
  add_owner(s, u, t);
  sqlite3_str_appendall(s, " FROM (SELECT s.*, CASE");
  for (const kv_db_column *c = t->column; c->name; c++)
    if (compared(c, last)) {
      add_case(s, t, c);
      any = true;
    }
  sqlite3_str_appendall(s, " END AS what");
  add_rows(s, u, t);
  sqlite3_str_appendf(s, " CROSS JOIN %s.%s d", u->to, t->name);
  for (const kv_db_column *c = t->column; c->name; c++) {
    if (c->rule != KV_DB_KEY) continue;
    sqlite3_str_appendf(s, "%sd.%s = ", and, c->name);
    add_value(s, c);
    and = " AND ";
  }
  sqlite3_str_appendall(s, " WHERE what IS NOT NULL) s LIMIT 1");
  char *text = text_of(s);
  if (any) return text;
  sqlite3_free(text);
  return NULL;
}

static const char *column(sqlite3_stmt *s, int at) {
  const char *text = (const char *)sqlite3_column_text(s, at);
  return text ? text : "";
}

static int ask(kv_db_union *u, int slot, const kv_db_table *t, bool last,
               const char *const word[2], bool *found, kv_db_difference *out) {
  sqlite3_stmt **at = &u->differ[slot];
  char *sql = *at ? NULL : differ_sql(u, t, last);
  if (!*at && !sql) return SQLITE_OK;
  sqlite3_stmt *s = prepared(u, at, sql);
  if (!s) return code_of(u->sql);
  for (int i = 0; i < 2; i++)
    sqlite3_bind_text(s, i + 1, word[i], -1, SQLITE_STATIC);
  *found = sqlite3_step(s) == SQLITE_ROW;
  if (*found) {
    out->layer = sqlite3_column_int(s, 1);
    snprintf(out->what, sizeof out->what, "%s", column(s, 0));
    snprintf(out->owner, sizeof out->owner, "%s", column(s, 2));
  }
  return sqlite3_reset(s);
}

/* Where two blobs first differ, and the byte of x there. */
static void told_of_blob(sqlite3_context *c, sqlite3_value *x,
                         sqlite3_value *y) {
  const unsigned char *a = sqlite3_value_blob(x), *b = sqlite3_value_blob(y);
  int most = sqlite3_value_bytes(x), at = 0;
  char text[48];
  while (at < most && at < sqlite3_value_bytes(y) && a[at] == b[at]) at++;
  snprintf(text, sizeof text, "%02x at byte %d", at < most ? a[at] : 0, at);
  sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

/* told(x, y): x for people, if y differs from it. Digests are cut unless their
 * first digits are equal. */
static void told(sqlite3_context *c, int n, sqlite3_value **v) {
  char real[32];
  (void)n;
  if (sqlite3_value_type(v[0]) == SQLITE_BLOB) {
    told_of_blob(c, v[0], v[1]);
    return;
  }
  if (sqlite3_value_type(v[0]) == SQLITE_FLOAT) {
    snprintf(real, sizeof real, "%.17g", sqlite3_value_double(v[0]));
    sqlite3_result_text(c, real, -1, SQLITE_TRANSIENT);
    return;
  }
  const char *x = (const char *)sqlite3_value_text(v[0]);
  const char *y = (const char *)sqlite3_value_text(v[1]);
  bool digest = x && y && strlen(x) == 64 && strncmp(x, y, 16);
  sqlite3_result_text(c, x ? x : "none", digest ? 16 : -1, SQLITE_TRANSIENT);
}

int kv_db_differs(kv_db_union *u, const char *there, const char *here,
                  bool *found, kv_db_difference *out) {
  const char *const word[] = {there, here};
  int bad = 0;
  if (!u->differ[KV_DB_journal_digest])
    bad = sqlite3_create_function(u->sql, "told", 2, SQLITE_UTF8, NULL, told,
                                  NULL, NULL);
  *found = false;
  if (!bad)
    bad = ask(u, KV_DB_journal_digest, kv_db_table_list[KV_DB_journal_digest],
              false, word, found, out);
  for (int i = 0; i < KV_DB_UNION && !bad && !*found; i++)
    bad = ask(u, i, kv_db_table_list[i], false, word, found, out);
  if (bad || *found) return bad;
  return ask(u, KV_DB_UNION, kv_db_table_list[KV_DB_run], true, word, found,
             out);
}

void kv_db_union_close(kv_db_union *u) {
  for (int i = 0; i <= KV_DB_UNION; i++) sqlite3_finalize(u->differ[i]);
  for (int i = 0; i < KV_DB_UNION; i++) sqlite3_finalize(u->join[i]);
}
