/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer as a table: analysis/compare/answer.h.
 */
#include "analysis/compare/answer.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TABLE                                                                  \
  "CREATE TEMP TABLE answered_at(basis TEXT, asked TEXT, reads INTEGER,"       \
  " size REAL, rank INTEGER, method TEXT, ruler INTEGER, place TEXT,"          \
  " alike INTEGER, measure TEXT, traces INTEGER, value REAL, share REAL,"      \
  " kl REAL, reason TEXT, shown TEXT)"
#define PUT                                                                    \
  "INSERT INTO answered_at VALUES (substr(?1, 1, instr(?1, ':') - 1), ?1, ?2," \
  " ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, nullif(?14, ''), ?15)"

static int fail(sqlite3 *db) {
  return kv_tell(KV_EXIT_RESOURCE, "the answer: %.300s", sqlite3_errmsg(db));
}

static void show(const kv_answer_size *z, const kv_answer_row *r, size_t size,
                 char *out) {
  char at[32] = "?";
  if (!isnan(r->share)) snprintf(at, sizeof at, "%.2g%%", 100 * r->share);
  if (r->share >= 0.9995) snprintf(at, sizeof at, "%.0f%%", 100 * r->share);
  if (r->place == KV_ANSWER_NONE)
    snprintf(out, size, isnan(r->share) ? "-" : "from %s", at);
  else if (isnan(r->value))
    snprintf(out, size, "- (%s)", at);
  else if (r->place == KV_ANSWER_OWN)
    snprintf(out, size, "%.3g (%s)", r->value, at);
  else if (r->place == KV_ANSWER_SOME)
    snprintf(out, size, "%.3g (%d of %d)", r->value, r->traces, z->traces);
  else
    snprintf(out, size, "%.3g", r->value);
}

static int put_row(sqlite3 *db, sqlite3_stmt *s, const kv_answer_size *z,
                   int i) {
  static const char *const places[] = {"equal", "some", "own", "none"};
  const kv_answer_row *r = &z->row[i];
  const int whole[] = {2,        z->reads, 4,        i,  6,
                       r->ruler, 8,        r->alike, 10, r->traces};
  char shown[64];
  show(z, r, sizeof shown, shown);
  for (size_t k = 0; k < sizeof whole / sizeof *whole; k += 2)
    sqlite3_bind_int(s, whole[k], whole[k + 1]);
  sqlite3_bind_text(s, 1, z->x.at, -1, SQLITE_STATIC);
  sqlite3_bind_double(s, 3, z->share);
  sqlite3_bind_text(s, 5, r->method, -1, SQLITE_STATIC);
  sqlite3_bind_text(s, 7, places[r->place], -1, SQLITE_STATIC);
  sqlite3_bind_text(s, 9, z->x.by->name, -1, SQLITE_STATIC);
  sqlite3_bind_double(s, 11, r->value);
  sqlite3_bind_double(s, 12, r->share);
  sqlite3_bind_double(s, 13, r->kl);
  sqlite3_bind_text(s, 14, r->why, -1, SQLITE_STATIC);
  sqlite3_bind_text(s, 15, shown, -1, SQLITE_TRANSIENT);
  int step = sqlite3_step(s), end = sqlite3_reset(s);
  return step != SQLITE_DONE || end ? fail(db) : KV_EXIT_OK;
}

int kv_answer_put(sqlite3 *db, const kv_answer *a) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK;
  if (sqlite3_exec(db, TABLE, NULL, NULL, NULL) ||
      sqlite3_prepare_v2(db, PUT, -1, &s, NULL))
    rc = fail(db);
  for (int i = 0; i < a->sizes; i++)
    for (int j = 0; j < a->size[i].n && !rc; j++)
      rc = put_row(db, s, &a->size[i], j);
  sqlite3_finalize(s);
  return rc;
}

const char kv_answer_marks[] =
    "(34%): not at equal bytes, but at 34 % of dense's, for it has no budget "
    "or none that comes nearer. from 35%: there is a trace on which it cannot "
    "hold, or read, less. (3 of 4): of three traces alone, so not ranked; on "
    "the others it cannot get there, as where decode steps are many and it "
    "compresses the prompt alone. ruler: for comparison, nobody would use it.";

int kv_answer_ask(sqlite3 *db, const kv_answer *a, bool reads, kv_grid *out) {
  sqlite3_str *sql = sqlite3_str_new(db);
  int first = -1, n = 0;
  *out = (kv_grid){0};
  sqlite3_str_appendall(sql, "SELECT method || iif(ruler, ', ruler', '') AS"
                             " method");
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    if (z->reads != reads) continue;
    if (n++ == 0) first = i;
    sqlite3_str_appendf(sql, ", max(iif(asked = %Q, shown, NULL)) AS %Q",
                        z->x.at, z->x.at);
  }
  if (n)
    sqlite3_str_appendf(sql,
                        " FROM answered_at WHERE reads = %d GROUP BY method"
                        " ORDER BY max(iif(asked = %Q, rank, NULL)), method",
                        reads, a->size[first + n / 2].x.at);
  char *text = sqlite3_str_finish(sql);
  if (!text) return kv_tell(KV_EXIT_RESOURCE, "not enough memory");
  int rc = n ? kv_grid_ask(db, text, 0, NULL, out) : KV_EXIT_OK;
  sqlite3_free(text);
  return rc;
}
