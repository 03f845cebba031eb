/* SPDX-License-Identifier: Apache-2.0
 *
 * sql_db FILE SQL...: runs statements on a database as somebody would who
 * means harm, or whose disk did: without CHECKs, foreign keys and STRICT, so
 * that a column takes what it never has. Prints answers, which have one column:
 * another would not be looked at. \xNN in SQL stands for that byte. Exit 0, or
 * 1 and what SQLite says.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(sqlite3 *db, const char *what) {
  fprintf(stderr, "sql_db: %s: %s\n", what, sqlite3_errmsg(db));
  return 1;
}

static int answer(sqlite3 *db, sqlite3_stmt *s) {
  const char *sql = sqlite3_sql(s);
  int step;
  if (sqlite3_column_count(s) > 1) {
    fprintf(stderr, "sql_db: more than one column: %s\n", sql);
    return 1;
  }
  while ((step = sqlite3_step(s)) == SQLITE_ROW)
    printf("%s\n", sqlite3_column_text(s, 0));
  return step == SQLITE_DONE ? 0 : complain(db, sql);
}

/* Every statement of the text: a fault left out would let a check pass. */
static int ask(sqlite3 *db, const char *sql) {
  int bad = 0;
  while (*sql && !bad) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, &sql)) return complain(db, sql);
    if (s) bad = answer(db, s); /* else: blanks were left */
    sqlite3_finalize(s);
  }
  return bad;
}

/* In place. */
static char *unescape(char *text) {
  char *out = text, *all = text;
  while (*text) {
    char digits[3] = "";
    if (!strncmp(text, "\\x", 2) && strlen(text) >= 4) {
      memcpy(digits, text + 2, 2);
      *out++ = (char)strtol(digits, NULL, 16);
      text += 4;
    } else {
      *out++ = *text++;
    }
  }
  *out = 0;
  return all;
}

/* The schema with other words; its readers look at it anew. */
static int reword(const char *path, const char *from, const char *to) {
  sqlite3 *db = NULL;
  char *sql = sqlite3_mprintf("PRAGMA writable_schema = ON;"
                              "UPDATE sqlite_schema SET sql ="
                              " replace(sql, %Q, %Q) WHERE type = 'table'",
                              from, to);
  int bad = sqlite3_open(path, &db) || sqlite3_exec(db, sql, NULL, NULL, NULL);
  if (bad) complain(db, "the schema");
  sqlite3_free(sql);
  sqlite3_close(db);
  return bad;
}

static int run(const char *path, int n, char **sql) {
  sqlite3 *db = NULL;
  int bad = sqlite3_open(path, &db);
  if (!bad)
    bad = sqlite3_exec(db,
                       "PRAGMA ignore_check_constraints = ON;"
                       "PRAGMA foreign_keys = OFF",
                       NULL, NULL, NULL);
  if (bad) complain(db, path);
  for (int i = 0; i < n && !bad; i++) bad = ask(db, unescape(sql[i]));
  sqlite3_close(db);
  return bad;
}

int main(int argc, char **argv) {
  static const char strict[] = ") STRICT", lax[] = ") /*trict*/";
  int bad;
  if (argc < 3) return 1;
  bad = reword(argv[1], strict, lax) || run(argv[1], argc - 2, argv + 2);
  return reword(argv[1], lax, strict) || bad;
}
