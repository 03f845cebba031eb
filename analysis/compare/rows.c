/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/rows.h"
#include "analysis/database/say.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes in the basis of the budget ?1: the mean over steps, at the end, or read
 * and scanned. `mean:` is the share of the mean bytes. kr, the mean share of
 * dense's bytes, differs slightly and is used only if dense did not run. */
#define SHARE                                                                  \
  "CASE WHEN ?1 LIKE 'end:%%' THEN share_end WHEN ?1 LIKE 'read:%%' OR ?1"     \
  " LIKE 'traffic:%%' THEN share_read + coalesce(share_scanned, 0) ELSE"       \
  " coalesce(bytes_mean / max(iif(method = 'dense', bytes_mean, NULL)) OVER"   \
  " (PARTITION BY identity, prompt_len, observe), kr) END AS share"
#define ROWS                                                                   \
  "SELECT trace, request, prompt_len, observe, method, params, budget,"        \
  " %s(%s) AS value, " SHARE ", 1 AS questions, status, reason, kl"            \
  " FROM cell WHERE asked IN (?1, '') AND (?2 OR status IN ('ok', 'fixed'))"   \
  " ORDER BY min(trace) OVER (PARTITION BY request, prompt_len, observe),"     \
  " prompt_len, observe, trace"

/* Answers: an item counts as a trace, and a method has its name as typed.
 * `exact` counts only for measurable tasks (answers.sql). */
#define ITEMS                                                                  \
  "WITH can AS (SELECT model_digest, platform, task FROM task_mean WHERE"      \
  " measurable)"                                                               \
  " SELECT v.task || ' ' || v.item AS trace, v.task || ' ' || v.item AS"       \
  " request, v.platform AS prompt_len, v.model_digest AS observe, v.method,"   \
  " '{}' AS params, '' AS budget,"                                             \
  " v.value AS value, b.value AS share, v.questions FROM item_mean v"          \
  " LEFT JOIN item_mean b"                                                     \
  " ON b.measure = CASE WHEN ?1 LIKE 'end:%%' THEN 'bytes.end' WHEN ?1 LIKE"   \
  " 'read:%%' OR ?1 LIKE 'traffic:%%' THEN 'bytes.read' ELSE 'bytes.mean' END" \
  " AND (b.model_digest, b.platform,"                                          \
  " b.task, b.item, b.method, b.basis, b.asked) = (v.model_digest,"            \
  " v.platform, v.task, v.item, v.method, v.basis, v.asked)"                   \
  " WHERE v.asked IN (?1, '') AND v.measure = '%s' AND (v.measure <> 'exact'"  \
  " OR (v.model_digest, v.platform, v.task) IN can)"                           \
  " ORDER BY trace, prompt_len, observe"

static const char *view(const kv_compared *by) {
  return by->answered ? "item_mean" : "cell";
}

/* Runs a query with the name of a view, or of a function and a value. */
static int ask(sqlite3 *db, const char *sql, const char *of, const char *value,
               int binds, const char *const *bind, kv_grid *g) {
  char *text = sqlite3_mprintf(sql, of, value);
  int rc = text ? kv_grid_ask(db, text, binds, bind, g) : kv_tell_short();
  sqlite3_free(text);
  return rc;
}

static int say_none(sqlite3 *db, const kv_compared *by, const char *at) {
  kv_grid g;
  int rc = ask(db,
               "SELECT group_concat(asked, ', ') AS each FROM (SELECT "
               "DISTINCT asked FROM %s WHERE asked <> '')",
               view(by), NULL, 0, NULL, &g);
  if (rc) return rc;
  const char *each = kv_grid_text(&g, 0, "each");
  rc = kv_tell(KV_EXIT_USAGE,
               "nothing was %s at %s; the database has the budgets %s",
               by->answered ? "answered" : "run", at, *each ? each : "none");
  kv_grid_free(&g);
  return rc;
}

static int count(sqlite3 *db, const kv_compared *by, const char *at,
                 bool *any) {
  kv_grid g;
  int rc = ask(db, "SELECT count(*) AS n FROM %s WHERE asked = ?1", view(by),
               NULL, 1, &at, &g);
  if (rc) return rc;
  *any = kv_grid_number(&g, 0, "n") > 0;
  kv_grid_free(&g);
  return rc;
}

int kv_compare_rows_all(sqlite3 *db, const kv_compared *by, const char *at,
                        bool refused, kv_compare_rows *out) {
  const char *bind[] = {at, refused ? "1" : "0"};
  *out = (kv_compare_rows){.by = by, .at = at};
  const char *size = by->size ? "abs" : "";
  int rc = by->answered ? ask(db, ITEMS, by->value, NULL, 1, bind, &out->g)
                        : ask(db, ROWS, size, by->value, 2, bind, &out->g);
  if (!rc && !kv_variants_find(&out->g, &out->v)) rc = kv_tell_short();
  return rc;
}

int kv_compare_rows_find(sqlite3 *db, const kv_compared *by, const char *at,
                         kv_compare_rows *out) {
  bool any = false;
  int rc = count(db, by, at, &any);
  *out = (kv_compare_rows){.by = by, .at = at};
  if (!rc && !any) rc = say_none(db, by, at);
  return rc ? rc : kv_compare_rows_all(db, by, at, false, out);
}

void kv_compare_rows_free(kv_compare_rows *x) {
  kv_variants_free(&x->v);
  kv_grid_free(&x->g);
}

/* --- names ---------------------------------------------------------------- */

/* Does the row have the parameter in the n bytes of text, "page=16"? */
static bool has_one(json_t *params, const char *text, size_t n) {
  char *pair = strndup(text, n);
  char *equals = pair ? strchr(pair, '=') : NULL;
  bool good = false;
  if (equals) {
    *equals = 0;
    json_t *value = json_object_get(params, pair);
    char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
    const char *bare = json_is_string(value) ? json_string_value(value) : dump;
    good = bare && !strcmp(bare, equals + 1);
    free(dump);
  }
  free(pair);
  return good;
}

static bool means(const kv_compare_rows *x, int row, const char *text) {
  const char *method = kv_grid_text(&x->g, row, "method");
  size_t n = strcspn(text, ":");
  if (strlen(method) != n || strncmp(method, text, n)) return false;
  json_t *params = json_loads(kv_grid_text(&x->g, row, "params"), 0, NULL);
  bool good = true;
  for (text += n; *text && good; text += n) {
    n = strcspn(++text, ":");
    good = has_one(params, text, n);
  }
  json_decref(params);
  return good;
}

static int say_names(const kv_compare_rows *x, const char *text,
                     const bool *meant, int n) {
  char all[800] = "";
  size_t at = 0;
  if (!x->v.n)
    return kv_tell(KV_EXIT_USAGE, "no row at %s has %s%s", x->at, x->by->name,
                   strcmp(x->by->value, "loglik_token")
                       ? ""
                       : ": `kvreplay evaluate --again` adds it");
  for (int i = 0; i < x->v.n && at < sizeof all; i++)
    if (!n || meant[i])
      at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "",
                             x->v.label[i]);
  return n ? kv_tell(KV_EXIT_USAGE,
                     "%s could be %s at %s; add a parameter to name only one",
                     text, all, x->at)
           : kv_tell(KV_EXIT_USAGE, "no method %s at %s; choose from %s", text,
                     x->at, all);
}

int kv_compare_rows_name(const kv_compare_rows *x, const char *text,
                         int *variant) {
  bool *meant = calloc((size_t)x->v.n + 1, sizeof *meant);
  int n = 0, rc = KV_EXIT_OK;
  if (!meant) return kv_tell_short();
  *variant = kv_variants_same(&x->v, text);
  for (int r = 0; r < x->g.rows && *variant < 0; r++)
    meant[x->v.of[r]] = meant[x->v.of[r]] || means(x, r, text);
  for (int i = 0; i < x->v.n && *variant < 0; i++) n += meant[i];
  if (n == 1)
    for (int i = 0; i < x->v.n; i++) *variant = meant[i] ? i : *variant;
  if (*variant < 0) rc = say_names(x, text, meant, n);
  free(meant);
  return rc;
}

/* --- pairs ---------------------------------------------------------------- */

/* If some questions of an item failed, its mean is not the mean of all. */
static bool as_many(const kv_compare_rows *x, int i, int j) {
  return kv_grid_number(&x->g, i, "questions") ==
         kv_grid_number(&x->g, j, "questions");
}

static int row_of(const kv_compare_rows *x, int variant, int first, int end) {
  for (int r = first; r < end; r++)
    if (x->v.of[r] == variant && !isnan(kv_grid_number(&x->g, r, "value")))
      return r;
  return -1;
}

/* Adds the pair of the unit of rows first .. end - 1, if there is one. */
static void add_unit(const kv_compare_rows *x, int a, int b, int first, int end,
                     kv_pairs *out) {
  double d = 0, share[2] = {0, 0};
  int n = 0;
  for (int at = first, stop; at < end; at = stop) {
    stop = kv_grid_end(&x->g, at, KV_UNIT_TRACE);
    int i = row_of(x, a, at, stop), j = row_of(x, b, at, stop);
    if (i < 0 || j < 0 || !as_many(x, i, j)) continue;
    d += kv_grid_number(&x->g, i, "value") - kv_grid_number(&x->g, j, "value");
    share[0] += kv_grid_number(&x->g, i, "share");
    share[1] += kv_grid_number(&x->g, j, "share");
    n++;
  }
  if (!n) return;
  out->d[out->n++] = d / n;
  for (int k = 0; k < 2; k++) out->share[k] += share[k] / n;
}

void kv_compare_rows_pair(const kv_compare_rows *x, int a, int b,
                          kv_pairs *out) {
  out->n = 0;
  out->share[0] = out->share[1] = 0;
  for (int first = 0, end; first < x->g.rows; first = end) {
    end = kv_grid_end(&x->g, first, KV_UNIT);
    add_unit(x, a, b, first, end, out);
  }
  for (int k = 0; k < 2; k++) out->share[k] /= out->n;
}
