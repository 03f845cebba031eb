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
  "SELECT '' AS task, '' AS cluster, trace, request, prompt_len, observe,"     \
  " method, params, budget, asked, %s(%s) AS value, " SHARE                    \
  ", status, reason,"                                                          \
  " kl FROM cell WHERE asked IN (?1, '') AND (?2 OR status IN ('ok', "         \
  "'fixed'))"                                                                  \
  " ORDER BY min(trace) OVER (PARTITION BY request, prompt_len, observe),"     \
  " prompt_len, observe, trace"

/* Answers: a method has its name as typed. A trace is a model on a platform.
 * Tasks about the same contexts count as one, because what is seen in one of
 * them tells about the other: named by the first of them. */
#define OF_IT                                                                  \
  " FROM evaluated v WHERE v.evaluation_id = e.evaluation_id AND name "
#define ANSWERS                                                                \
  "WITH RECURSIVE pair AS MATERIALIZED (SELECT DISTINCT task, context FROM"    \
  " newest_evaluation WHERE context <> ''),"                                   \
  " near AS MATERIALIZED (SELECT DISTINCT a.task, b.task AS other FROM pair a" \
  " JOIN pair b USING (context)),"                                             \
  " reach AS (SELECT task, other FROM near UNION SELECT r.task, n.other FROM"  \
  " reach r JOIN near n ON n.task = r.other),"                                 \
  " joined AS (SELECT task, min(other) AS first FROM reach GROUP BY task),"    \
  " can AS (SELECT model_digest, platform, task FROM task_mean WHERE"          \
  " measurable),"                                                              \
  " at AS (SELECT *, (SELECT value" OF_IT "= '%s') AS value,"                  \
  " (SELECT sum(value)" OF_IT "IN (%s)) AS bytes FROM newest_evaluation e"     \
  " WHERE target IN (?1, '') AND (?2 OR status = 'ok')),"                      \
  " dense AS (SELECT question, platform, bytes FROM at WHERE method ="         \
  " 'dense' AND status = 'ok')"                                                \
  " SELECT coalesce(first, task) AS task, iif(context = '', task || item,"     \
  " context) AS cluster, model_digest || platform AS trace, task || ' ' ||"    \
  " item || ' ' || number AS request, '' AS prompt_len,"                       \
  " '' AS observe, method, '{}' AS params, '' AS budget, target AS asked,"     \
  " value, at.bytes / dense.bytes AS share, status, reason, NULL AS kl"        \
  " FROM at LEFT JOIN dense USING (question, platform)"                        \
  " LEFT JOIN joined USING (task)"                                             \
  " WHERE (?2 OR value IS NOT NULL) AND"                                       \
  " ('%s' <> 'exact' OR (model_digest, platform, task) IN can)"                \
  " ORDER BY coalesce(first, task), cluster, request, trace"

static const char *view(const kv_compared *by) {
  return by->answered ? "evaluations" : "cell";
}

/* The numbers of an evaluation that are the bytes of a budget. */
static const char *bytes(const char *at) {
  if (!strncmp(at, "end:", 4)) return "'bytes.end'";
  if (!strncmp(at, "read:", 5) || !strncmp(at, "traffic:", 8))
    return "'open.bytes.read', 'open.bytes.scanned'";
  return "'bytes.mean'";
}

/* Runs a query with the name of a view. */
static int ask(sqlite3 *db, const char *sql, const kv_compared *by, int binds,
               const char *const *bind, kv_grid *g) {
  char *text = sqlite3_mprintf(sql, view(by));
  int rc = text ? kv_grid_ask(db, text, binds, bind, g) : kv_tell_short();
  sqlite3_free(text);
  return rc;
}

static int say_none(sqlite3 *db, const kv_compared *by, const char *at) {
  kv_grid g;
  int rc = ask(db,
               "SELECT group_concat(asked, ', ') AS each FROM (SELECT "
               "DISTINCT asked FROM %s WHERE asked <> '')",
               by, 0, NULL, &g);
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
  int rc =
      ask(db, "SELECT count(*) AS n FROM %s WHERE asked = ?1", by, 1, &at, &g);
  if (rc) return rc;
  *any = kv_grid_number(&g, 0, "n") > 0;
  kv_grid_free(&g);
  return rc;
}

#define KV_CLUSTER "task cluster"
#define KV_UNIT KV_CLUSTER " request prompt_len observe"

/* Numbers the rows by what they are about. */
static bool number(kv_compare_rows *x) {
  kv_compare_row now = {0};
  x->row = calloc((size_t)x->g.rows + 1, sizeof *x->row);
  for (int r = 0; r < x->g.rows && x->row; r++) {
    const char *status = kv_grid_text(&x->g, r, "status");
    bool same = r && kv_grid_alike(&x->g, r - 1, r, KV_UNIT);
    now.trace += !same || !kv_grid_alike(&x->g, r - 1, r, "trace");
    now.unit += !same;
    now.cluster += !same && !(x->by->answered && r &&
                              kv_grid_alike(&x->g, r - 1, r, KV_CLUSTER));
    now.task += !r || !kv_grid_alike(&x->g, r - 1, r, "task");
    bool ran = !strcmp(status, "ok") || !strcmp(status, "fixed");
    now.value = ran ? kv_grid_number(&x->g, r, "value") : NAN;
    now.share = kv_grid_number(&x->g, r, "share");
    x->row[r] = now;
  }
  x->clusters = now.cluster;
  return x->row != NULL;
}

int kv_compare_rows_all(sqlite3 *db, const kv_compared *by, const char *at,
                        bool refused, kv_compare_rows *out) {
  const char *bind[] = {at, refused ? "1" : "0"};
  *out = (kv_compare_rows){.by = by, .at = at};
  char *sql = by->answered
                  ? sqlite3_mprintf(ANSWERS, by->value, bytes(at), by->value)
                  : sqlite3_mprintf(ROWS, by->size ? "abs" : "", by->value);
  int rc = sql ? kv_grid_ask(db, sql, 2, bind, &out->g) : kv_tell_short();
  sqlite3_free(sql);
  if (!rc && (!number(out) || !kv_variants_find(&out->g, &out->v)))
    rc = kv_tell_short();
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
  free(x->row);
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

/* The row of a variant with a value among rows first .. end - 1, or -1. */
static int row_of(const kv_compare_rows *x, int variant, int first, int end) {
  for (int r = first; r < end; r++)
    if (x->v.of[r] == variant && !isnan(x->row[r].value)) return r;
  return -1;
}

/* Adds the pair of the unit that begins at row `first`, if there is one, to the
 * cluster. Returns the end of the unit. */
static int add_unit(const kv_compare_rows *x, int a, int b, int first,
                    kv_pairs *out, kv_cluster *to) {
  double d = 0, share[2] = {0, 0};
  int n = 0, at = first, end;
  for (; x->row[at].unit == x->row[first].unit; at = end) {
    for (end = at; x->row[end].trace == x->row[at].trace;) end++;
    int i = row_of(x, a, at, end), j = b < 0 ? i : row_of(x, b, at, end);
    if (i < 0 || j < 0) continue;
    d += x->row[i].value - (b < 0 ? 0 : x->row[j].value);
    share[0] += x->row[i].share;
    share[1] += x->row[j].share;
    n++;
  }
  if (!n) return at;
  to->n++;
  to->sum += d / n;
  to->above += d > 0;
  to->below += d < 0;
  for (int k = 0; k < 2; k++) out->share[k] += share[k] / n;
  return at;
}

void kv_compare_rows_pair(const kv_compare_rows *x, int a, int b,
                          kv_pairs *out) {
  out->n = out->units = 0;
  out->share[0] = out->share[1] = 0;
  for (int first = 0, r = 0; r < x->g.rows; first = r) {
    kv_cluster *to = &out->c[out->n];
    *to = (kv_cluster){.task = x->row[first].task};
    while (r < x->g.rows && x->row[r].cluster == x->row[first].cluster)
      r = add_unit(x, a, b, r, out, to);
    out->units += to->n;
    out->n += to->n > 0;
  }
  for (int k = 0; k < 2; k++) out->share[k] /= out->units;
}

/* --- is the measure to be trusted? ---------------------------------------- */

#define APART 0.1

bool kv_compare_same_bytes(const double share[2]) {
  double more = share[0] > share[1] ? share[0] : share[1];
  return fabs(share[0] - share[1]) <= APART * more;
}

/* Is the variant the method, perhaps with parameters? */
static bool is(const kv_compare_rows *x, int variant, const char *method) {
  size_t n = strlen(method);
  const char *label = x->v.label[variant];
  return !strncmp(label, method, n) && (!label[n] || label[n] == ' ');
}

bool kv_compare_rows_trust(const kv_compare_rows *x, kv_trust *out) {
  kv_pairs pairs = {.c = malloc(((size_t)x->clusters + 1) * sizeof *pairs.c)};
  int n = 0;
  double sum = 0;
  for (int i = 0; i < x->v.n * x->v.n && pairs.c; i++) {
    int best = i / x->v.n, other = i % x->v.n;
    if (!is(x, best, "oracle-evict") || !is(x, other, "random")) continue;
    kv_compare_rows_pair(x, best, other, &pairs);
    if (!kv_compare_same_bytes(pairs.share)) continue;
    for (int k = 0; k < pairs.n; k++) sum += pairs.c[k].sum;
    n += pairs.n;
  }
  *out = x->by->answered           ? KV_TRUST_NONE
         : !n                      ? KV_TRUST_UNKNOWN
         : sum * x->by->better > 0 ? KV_TRUST_CHECKED
                                   : KV_TRUST_REFUSED;
  free(pairs.c);
  return pairs.c != NULL;
}
