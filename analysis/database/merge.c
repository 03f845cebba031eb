/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport merge OUT DB...: the union of results. It is associative,
 * commutative and idempotent, because rows are named by what they contain
 * (keys and digests; small integers are made anew), and it refuses two values
 * under one key, naming both: that is the cross-check.
 *
 * The union is built in a temporary database. OUT is written last: a new OUT
 * appears by renaming a finished file, one that is there takes everything in
 * one transaction. After a refusal OUT is as it was.
 */
#include "analysis/database/merge_part.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const kv_results_tables[] = {
    "environment", "trace", "artefact", "shard", "run", "held", "scalar", "ask",
    "part", "metric", "step_mean", "step_cost", "journal_digest",
    "confirmation", "diff", "budget", "layout", "layout_step", "device_cache",
    "survival", "pool", "pool_step", "request", "figure", "compressor",
    /* of evaluations */
    "model", "question", "platform", "evaluation", "quantity", "evaluated",
    "evaluator", "evaluation_diff", NULL};

/* Small integers of a file, and what says in every file which row is meant. */
static const struct {
  const char *column, *table, *name;
} numbers[] = {{"run_id", "run", "key"},
               {"environment_id", "environment", "digest"},
               {"evaluation_id", "evaluation", "key"}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static int run(sqlite3 *db, char *sql) {
  int bad = !sql || sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return bad ? kv_results_fail(db, "a database to merge") : KV_EXIT_OK;
}

/* --- copying -------------------------------------------------------------- */

/* "INSERT OR IGNORE INTO to.t (columns) SELECT columns": a small integer of
 * `from` becomes that of `to` through the key or digest it stands for. */
static char *copy_sql(sqlite3 *db, const char *to, const char *from,
                      const char *table) {
  sqlite3_str *names = sqlite3_str_new(db), *values = sqlite3_str_new(db);
  sqlite3_str *joins = sqlite3_str_new(db);
  sqlite3_stmt *s = NULL;
  char *info = sqlite3_mprintf("PRAGMA main.table_info(%s)", table);
  char *n, *v, *j, *sql;
  int step = SQLITE_NOMEM;
  if (info) sqlite3_prepare_v2(db, info, -1, &s, NULL);
  while (s && (step = sqlite3_step(s)) == SQLITE_ROW) {
    const char *c = (const char *)sqlite3_column_text(s, 1);
    int i = 0;
    if (!c) break;
    while (i < NUMBERS && strcmp(c, numbers[i].column)) i++;
    if (i < NUMBERS && !strcmp(table, numbers[i].table)) continue;
    sqlite3_str_appendf(names, ",%s", c);
    if (i == NUMBERS) {
      sqlite3_str_appendf(values, ",t.%s", c);
      continue;
    }
    const char *of = numbers[i].table, *name = numbers[i].name;
    sqlite3_str_appendf(values, ",to_%s.%s", of, c);
    sqlite3_str_appendf(joins,
                        " JOIN %s.%s from_%s ON from_%s.%s = t.%s"
                        " JOIN %s.%s to_%s ON to_%s.%s = from_%s.%s",
                        from, of, of, of, c, c, to, of, of, of, name, of, name);
  }
  sqlite3_finalize(s);
  sqlite3_free(info);
  if (sqlite3_str_errcode(joins)) step = SQLITE_NOMEM;
  n = sqlite3_str_finish(names);
  v = sqlite3_str_finish(values);
  j = sqlite3_str_finish(joins);
  sql = step == SQLITE_DONE && n && v
            ? sqlite3_mprintf("INSERT OR IGNORE INTO %s.%s (%s)"
                              " SELECT %s FROM %s.%s t%s",
                              to, table, n + 1, v + 1, from, table, j ? j : "")
            : NULL;
  sqlite3_free(n);
  sqlite3_free(v);
  sqlite3_free(j);
  return sql;
}

/* What is not named by its contents: the lesser of two names (of a trace, of a
 * model) or reasons, the shape from whoever knows it; the lesser of what two
 * numpys found; the digest of all values from the kvreplay that took more
 * measures, whose further ones came with `metric`; numbers that 0.1.0 did not
 * take. The first name is that of the database which is changed, the second of
 * the other. */
static const char *const lesser[] = {
    "UPDATE %s.trace AS d SET name = min(d.name, s.name),"
    " n_tokens = max(d.n_tokens, s.n_tokens),"
    " n_layers = coalesce(d.n_layers, s.n_layers),"
    " n_heads = coalesce(d.n_heads, s.n_heads),"
    " n_kv_heads = coalesce(d.n_kv_heads, s.n_kv_heads),"
    " d = coalesce(d.d, s.d), d_v = coalesce(d.d_v, s.d_v),"
    " dtype = coalesce(d.dtype, s.dtype),"
    " request = coalesce(d.request, s.request)"
    " FROM %s.trace s WHERE s.identity = d.identity",
    "UPDATE %s.run AS d SET measures = s.measures, value = s.value"
    " FROM %s.run s WHERE s.key = d.key AND s.measures > d.measures",
    "UPDATE %s.figure AS d SET value = min(d.value, s.value)"
    " FROM %s.figure s WHERE (s.identity, s.figure, s.layer, s.head, s.series,"
    " s.part, s.x, s.y) = (d.identity, d.figure, d.layer, d.head, d.series,"
    " d.part, d.x, d.y) AND"
    " s.value != d.value",
    "UPDATE %s.pool AS d SET map_peak = s.map_peak, running = s.running,"
    " running_peak = s.running_peak, waiting = s.waiting,"
    " waiting_peak = s.waiting_peak FROM %s.pool s"
    " WHERE s.pool = d.pool AND d.running IS NULL",
    "UPDATE %s.request AS d SET blocks = s.blocks, admitted = s.admitted,"
    " first = s.first FROM %s.request s WHERE s.pool = d.pool"
    " AND s.place = d.place AND d.blocks IS NULL",
    "UPDATE %s.model AS d SET model = s.model FROM %s.model s"
    " WHERE s.model_digest = d.model_digest AND s.model < d.model",
    "UPDATE %s.evaluation AS d SET reason = s.reason FROM %s.evaluation s"
    " WHERE s.key = d.key AND s.reason < d.reason",
    "UPDATE %s.run AS d SET reason = min(d.reason, s.reason),"
    " spec = min(d.spec, s.spec) FROM %s.run s WHERE s.key = d.key AND"
    " (s.reason != d.reason OR s.spec != d.spec)"};

static int compress(sqlite3 *db, const char *to, const char *from) {
  int rc = KV_EXIT_OK;
  for (size_t i = 0; i < sizeof lesser / sizeof *lesser && !rc; i++)
    rc = run(db, sqlite3_mprintf(lesser[i], to, from));
  return rc;
}

/* Digests of scores, and bytes of tables, which nobody in `to` took, from
 * whoever did. */
static int take_later(sqlite3 *db, const char *to, const char *from) {
  static const struct {
    const char *table, *same, *lacks, *set;
  } of[] = {
      {"journal_digest", "s.layer = d.layer", "scores", "scores = s.scores"},
      {"run", "1", "scores", "scores = s.scores"},
      {"layout", "s.layout = d.layout", "map_end",
       "map_end = s.map_end, map_peak = s.map_peak"}};
  int rc = KV_EXIT_OK;
  for (size_t i = 0; i < sizeof of / sizeof *of && !rc; i++)
    rc = run(db, sqlite3_mprintf(
                     "UPDATE %s.%s AS d SET %s FROM %s.run tr"
                     " JOIN %s.run fr ON fr.key = tr.key JOIN %s.%s s ON"
                     " s.run_id = fr.run_id WHERE tr.run_id = d.run_id AND %s"
                     " AND d.%s IS NULL AND s.%s IS NOT NULL",
                     to, of[i].table, of[i].set, to, from, from, of[i].table,
                     of[i].same, of[i].lacks, of[i].lacks));
  return rc;
}

static int copy(sqlite3 *db, const char *to, const char *from) {
  int rc = KV_EXIT_OK;
  for (int i = 0; kv_results_tables[i] && !rc; i++)
    rc = run(db, copy_sql(db, to, from, kv_results_tables[i]));
  if (!rc) rc = compress(db, to, from);
  return rc ? rc : take_later(db, to, from);
}

/* --- the union ------------------------------------------------------------ */

static int attach(sqlite3 *db, const char *path, bool write) {
  char *sql, *uri = NULL;
  int bad = kv_results_there(path);
  if (!bad) bad = kv_results_name(path, &uri);
  if (bad) return bad;
  sql = sqlite3_mprintf("ATTACH %Q AS source", uri);
  sqlite3_free(uri);
  bad = !sql || sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  if (bad) return kv_results_fail(db, path);
  bad = kv_results_version(db, "source", path, write);
  return bad ? bad : kv_results_check(db, "source", path);
}

static int make(sqlite3 *db, const char *sql) {
  sqlite3_stmt *s = NULL;
  bool bad = !sql || sqlite3_prepare_v2(db, sql, -1, &s, NULL) ||
             sqlite3_step(s) != SQLITE_DONE;
  sqlite3_finalize(s);
  return bad ? kv_results_fail(db, "a database to merge") : KV_EXIT_OK;
}

/* The tables of the first database, by the words it made them with: of each
 * text one statement, which SQLite itself has read as part of a schema, and
 * none that would act later. */
static int take_schema(sqlite3 *db) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK, step = SQLITE_DONE;
  if (sqlite3_prepare_v2(db,
                         "SELECT sql FROM source.sqlite_schema WHERE sql IS"
                         " NOT NULL AND type IN ('table', 'index', 'view')"
                         " ORDER BY rowid",
                         -1, &s, NULL))
    return kv_results_fail(db, "a database to merge");
  while (!rc && (step = sqlite3_step(s)) == SQLITE_ROW)
    rc = make(db, (const char *)sqlite3_column_text(s, 0));
  if (!rc && step != SQLITE_DONE)
    rc = kv_results_fail(db, "a database to merge");
  sqlite3_finalize(s);
  return rc;
}

static int take_head(sqlite3 *db) {
  static const char *const name[] = {"application_id", "user_version"};
  int rc = KV_EXIT_OK;
  for (int i = 0; i < 2 && !rc; i++) {
    sqlite3_stmt *s = NULL;
    char *ask = sqlite3_mprintf("PRAGMA source.%s", name[i]);
    if (!ask || sqlite3_prepare_v2(db, ask, -1, &s, NULL) ||
        sqlite3_step(s) != SQLITE_ROW)
      rc = kv_results_fail(db, "a database to merge");
    else
      rc = run(db, sqlite3_mprintf("PRAGMA main.%s = %d", name[i],
                                   sqlite3_column_int(s, 0)));
    sqlite3_finalize(s);
    sqlite3_free(ask);
  }
  return rc;
}

static int add(sqlite3 *db, bool first, const char *path) {
  int rc = attach(db, path, false), end;
  if (!rc && first) rc = take_schema(db);
  if (!rc && first) rc = take_head(db);
  if (!rc) rc = kv_merge_contradictions(db, path);
  if (!rc) rc = run(db, sqlite3_mprintf("BEGIN"));
  if (!rc) rc = copy(db, "main", "source");
  if (!sqlite3_get_autocommit(db)) {
    end = run(db, sqlite3_mprintf(rc ? "ROLLBACK" : "COMMIT"));
    if (!rc) rc = end;
  }
  return rc ? rc : run(db, sqlite3_mprintf("DETACH source"));
}

/* --- writing OUT ---------------------------------------------------------- */

static int write_new(sqlite3 *db, const char *out) {
  /* Behind "./" a name that begins with "file:" is no URI. */
  char *part = sqlite3_mprintf("%s%s.%d.part", *out == '/' ? "" : "./", out,
                               (int)getpid());
  int rc, fd;
  if (!part) return kv_tell(KV_EXIT_RESOURCE, "not enough memory");
  rc = run(db, sqlite3_mprintf("VACUUM main INTO %Q", part));
  fd = rc ? -1 : open(part, O_RDWR);
  if (!rc && (fd < 0 || fsync(fd) || rename(part, out)))
    rc = kv_tell(KV_EXIT_RESOURCE, "cannot write %s: %s", out, strerror(errno));
  if (fd >= 0) close(fd);
  if (rc) unlink(part);
  sqlite3_free(part);
  return rc;
}

static int write_into(sqlite3 *db, const char *out) {
  int rc = attach(db, out, true), end;
  if (!rc) rc = run(db, sqlite3_mprintf("PRAGMA source.synchronous = FULL"));
  if (!rc) rc = run(db, sqlite3_mprintf("BEGIN IMMEDIATE"));
  if (!rc) rc = kv_merge_contradictions(db, out);
  if (!rc) rc = copy(db, "source", "main");
  if (!sqlite3_get_autocommit(db)) {
    end = run(db, sqlite3_mprintf(rc ? "ROLLBACK" : "COMMIT"));
    if (!rc) rc = end;
  }
  return rc;
}

/* OUT keeps what it has: nobody needs to name it twice. */
static int not_read(const kv_list *files) {
  struct stat out, in;
  if (stat(files->item[0], &out)) return KV_EXIT_OK;
  for (int i = 1; i < files->n; i++)
    if (!stat(files->item[i], &in) && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino)
      return kv_tell(KV_EXIT_USAGE,
                     "%s would write over %s, which is read: OUT keeps what it "
                     "has, name it once",
                     files->item[0], files->item[i]);
  return KV_EXIT_OK;
}

int kv_results_merge(const kv_list *files) {
  bool there = !access(files->item[0], F_OK);
  sqlite3 *db = NULL;
  const int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
  int rc = not_read(files);
  if (rc) return rc;
  if (sqlite3_open_v2("", &db, how, NULL) || kv_results_guard(db))
    rc = kv_results_fail(db, "a temporary database");
  else
    kv_results_wait(db, files->item[0]);
  for (int i = 1; i < files->n && !rc; i++)
    rc = add(db, i == 1, files->item[i]);
  if (!rc)
    rc = there ? write_into(db, files->item[0]) : write_new(db, files->item[0]);
  sqlite3_close(db);
  return rc;
}
