/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/answer.h"
#include "analysis/compare/paired.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first of these measures that cells have. analysis/README.md shows which
 * measures rank answers. */
static const char *const order[] = {"needle", "output_abs_p99"};

/* A method counts as equal between these shares of the size's bytes: up to a
 * tenth fewer, as in `kvreport compare`, or more by rounding. */
#define LEAST 0.9
#define MOST 1.005
#define LEVEL 0.05

/* --- one method ----------------------------------------------------------- */

static bool is_baseline(const char *method) {
  static const char *const all[] = {"dense", "window", "random", "replay"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(method, all[i])) return true;
  return !strncmp(method, "oracle-", 7);
}

/* The share of dense's bytes that the reason of a refusal names, "(35.5 %),
 * more than mean:10%" (sim/ask/budget.c); NaN: none. */
static double least_of(const char *reason) {
  const char *at = strstr(reason, " %), more than ");
  double share = NAN;
  while (at && at > reason && *at != '(') at--;
  if (at && sscanf(at, "(%lf %%)", &share) == 1) return share / 100;
  return NAN;
}

/* Sums over a variant's rows in a unit, or over its units. */
typedef struct sums {
  int ran, valued;
  double value, share, kl, least;
  const char *why, *method;
} sums;

static void add(sums *s, const kv_grid *g, int r) {
  double value = kv_grid_number(g, r, "value");
  const char *status = kv_grid_text(g, r, "status");
  if (strcmp(status, "ok") && strcmp(status, "fixed")) {
    const char *why = kv_grid_text(g, r, "reason");
    double least = least_of(why);
    if (isnan(s->least) || least > s->least) s->least = least;
    s->why = s->why ? s->why : why;
    return;
  }
  s->ran++;
  s->share += kv_grid_number(g, r, "share");
  if (isnan(value)) return;
  s->valued++;
  s->value += value;
  s->kl += kv_grid_number(g, r, "kl");
}

/* Adds the means of a unit. */
static void add_unit(sums *s, const sums *u) {
  if (u->ran) {
    s->ran++;
    s->share += u->share / u->ran;
  } else if (u->why) {
    if (isnan(s->least) || u->least > s->least) s->least = u->least;
    s->why = s->why ? s->why : u->why;
  }
  if (!u->valued) return;
  s->valued++;
  s->value += u->value / u->valued;
  s->kl += u->kl / u->valued;
}

static kv_answer_place place_of(const kv_answer_size *z, const sums *s) {
  double share = s->share / s->ran;
  if (s->why || !s->ran) return s->ran ? KV_ANSWER_SOME : KV_ANSWER_NONE;
  if (!(share >= LEAST * z->share && share <= MOST * z->share))
    return KV_ANSWER_OWN;
  return s->valued == z->traces ? KV_ANSWER_EQUAL : KV_ANSWER_SOME;
}

/* counts: [rows] rows of units in which any method has a value. A trace without
 * a marked answer says nothing about needle, so its bytes do not count. */
static kv_answer_row row_of(const kv_answer_size *z, const bool *counts,
                            int variant) {
  sums s = {.least = NAN, .method = ""};
  for (int r = 0, end; r < z->x.g.rows;) {
    sums unit = {.least = NAN};
    for (end = kv_grid_end(&z->x.g, r, KV_UNIT); r < end; r++) {
      if (z->x.v.of[r] != variant) continue;
      s.method = kv_grid_text(&z->x.g, r, "method");
      if (counts[r]) add(&unit, &z->x.g, r);
    }
    add_unit(&s, &unit);
  }
  kv_answer_row out = {.method = z->x.v.label[variant],
                       .variant = variant,
                       .place = place_of(z, &s),
                       .baseline = is_baseline(s.method),
                       .traces = s.valued,
                       .value = s.value / s.valued,
                       .kl = s.kl / s.valued,
                       .share = s.ran ? s.share / s.ran : s.least,
                       .why = s.why ? s.why : ""};
  return out;
}

/* --- one size ------------------------------------------------------------- */

static int traces_of(const kv_compare_rows *x, bool *counts) {
  int n = 0;
  for (int first = 0, end; first < x->g.rows; first = end) {
    bool any = false;
    end = kv_grid_end(&x->g, first, KV_UNIT);
    for (int r = first; r < end; r++)
      any = any || !isnan(kv_grid_number(&x->g, r, "value"));
    for (int r = first; r < end; r++) counts[r] = any;
    n += any;
  }
  return n;
}

/* By place, then the best first; without a value by bytes, then by name. */
static int by_place(const void *a, const void *b) {
  const kv_answer_row *x = a, *y = b;
  if (x->place != y->place) return x->place < y->place ? -1 : 1;
  if (x->value > y->value || (isnan(y->value) && !isnan(x->value))) return -1;
  if (x->value < y->value || (isnan(x->value) && !isnan(y->value))) return 1;
  if (x->share != y->share) return x->share < y->share ? -1 : 1;
  return strcmp(x->method, y->method);
}

static void sort_rows(kv_answer_size *z) {
  int better = z->x.by->better;
  for (int i = 0; i < z->n; i++) z->row[i].value *= better;
  qsort(z->row, (size_t)z->n, sizeof *z->row, by_place);
  for (int i = 0; i < z->n; i++) z->row[i].value *= better;
  z->best = -1;
  for (int i = z->n - 1; i >= 0; i--)
    if (z->row[i].place == KV_ANSWER_EQUAL && !z->row[i].baseline) z->best = i;
}

static bool rivals(const kv_answer_size *z, int i) {
  const kv_answer_row *r = &z->row[i];
  return i != z->best && r->place == KV_ANSWER_EQUAL && !r->baseline;
}

/* Marks methods that are not significantly worse than the best, by the tests of
 * `kvreport compare`. */
static bool tell_apart(kv_answer_size *z) {
  size_t rows = (size_t)z->x.g.rows + 1, n = (size_t)z->n + 1;
  kv_pairs pairs = {.d = malloc(rows * sizeof *pairs.d)};
  double *p = malloc(2 * n * sizeof *p), *holm = p + n;
  bool good = pairs.d && p;
  kv_paired found = {0};
  for (int i = 0; i < z->n && good; i++) {
    if (!rivals(z, i)) continue;
    kv_compare_rows_pair(&z->x, z->row[z->best].variant, z->row[i].variant,
                         &pairs);
    good = pairs.n && kv_paired_find(pairs.n, pairs.d, &found);
    p[z->tests++] = found.p;
  }
  z->able = found.p_least * z->tests < LEVEL;
  good = good && kv_paired_holm(z->tests, p, holm);
  for (int i = 0, k = 0; i < z->n && good; i++)
    if (rivals(z, i)) z->row[i].alike = holm[k++] >= LEVEL;
  free(pairs.d);
  free(p);
  return good;
}

static int find_size(sqlite3 *db, const kv_compared *by, const char *at,
                     bool reads, kv_answer_size *z) {
  const char *number = strchr(at, ':');
  *z = (kv_answer_size){.reads = reads, .best = -1};
  z->share = number ? atof(number + 1) / 100 : NAN;
  int rc = kv_compare_rows_all(db, by, at, true, &z->x);
  if (rc) return rc;
  bool *counts = calloc((size_t)z->x.g.rows + 1, sizeof *counts);
  z->n = z->x.v.n;
  z->row = calloc((size_t)z->n + 1, sizeof *z->row);
  if (counts && z->row) z->traces = traces_of(&z->x, counts);
  for (int i = 0; counts && z->row && i < z->n; i++)
    z->row[i] = row_of(z, counts, i);
  free(counts);
  if (!counts || !z->row) return kv_tell_short();
  sort_rows(z);
  if (z->best < 0) return KV_EXIT_OK;
  z->row[z->best].alike = true;
  return z->traces < KV_PAIRS_LEAST || tell_apart(z) ? KV_EXIT_OK
                                                     : kv_tell_short();
}

/* --- all sizes ------------------------------------------------------------ */

static int find_measure(sqlite3 *db, const kv_compared **by) {
  kv_grid g;
  int rc =
      kv_grid_ask(db, "SELECT count(needle_share) AS n FROM cell", 0, NULL, &g);
  if (rc) return rc;
  *by = kv_compared_named(order[kv_grid_number(&g, 0, "n") > 0 ? 0 : 1]);
  kv_grid_free(&g);
  return KV_EXIT_OK;
}

#define SIZES                                                                  \
  "SELECT DISTINCT asked, basis IN ('read', 'traffic') AS reads FROM cell"     \
  " WHERE basis IN ('mean', 'end', 'read', 'traffic') ORDER BY reads, basis,"  \
  " CAST(substr(asked, 1 + instr(asked, ':')) AS REAL)"

int kv_answer_find(sqlite3 *db, kv_answer *out) {
  *out = (kv_answer){.sizes = 0};
  int rc = find_measure(db, &out->by);
  if (!rc) rc = kv_grid_ask(db, SIZES, 0, NULL, &out->asked);
  if (!rc)
    rc = kv_grid_ask(db, "SELECT said FROM repeated", 0, NULL, &out->repeated);
  if (rc) return rc;
  int n = out->asked.rows;
  out->size = calloc((size_t)n + 1, sizeof *out->size);
  if (!out->size) return kv_tell_short();
  for (; out->sizes < n && !rc; out->sizes++) {
    const char *at = kv_grid_text(&out->asked, out->sizes, "asked");
    bool reads = kv_grid_number(&out->asked, out->sizes, "reads") > 0;
    rc = find_size(db, out->by, at, reads, &out->size[out->sizes]);
  }
  return rc;
}

void kv_answer_free(kv_answer *a) {
  for (int i = 0; i < a->sizes; i++) {
    kv_compare_rows_free(&a->size[i].x);
    free(a->size[i].row);
  }
  free(a->size);
  kv_grid_free(&a->asked);
  kv_grid_free(&a->repeated);
}

/* A growing text; what does not fit is dropped. */
typedef struct text {
  char *out;
  size_t n;
} text;

static void put(text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(text *t, const char *format, ...) {
  va_list all;
  va_start(all, format);
  int n = vsnprintf(t->out + t->n, KV_ANSWER_SAID - t->n, format, all);
  va_end(all);
  if (n > 0) t->n += (size_t)n;
  if (t->n >= KV_ANSWER_SAID) t->n = KV_ANSWER_SAID - 1;
}

static const char *kind(const kv_answer_size *z) {
  return z->reads ? "read and scanned" : "stored";
}

/* Writes what precedes the i-th size: nothing, a comma, or the next kind. */
static void put_between(text *t, const kv_answer *a, int i) {
  const kv_answer_size *z = &a->size[i];
  if (i == 0 || z->reads != z[-1].reads)
    put(t, "%s%s, ", i ? "; " : "", kind(z));
  else
    put(t, ", ");
}

/* --- the best ------------------------------------------------------------- */

enum { NAMED = 3 }; /* methods named before "and 2 more" */

static void put_alike(text *t, const kv_answer_size *z) {
  int n = 0;
  for (int i = 0; i < z->n; i++) {
    if (i == z->best || !z->row[i].alike || ++n > NAMED) continue;
    put(t, "%s%s", n > 1 ? ", " : ", tied with ", z->row[i].method);
  }
  if (n > NAMED) put(t, " and %d more", n - NAMED);
}

/* Names a method that is better with fewer bytes and can have no more. */
static void put_below(text *t, const kv_answer_size *z) {
  const kv_answer_row *best = &z->row[z->best], *below = NULL;
  for (int i = 0; i < z->n; i++) {
    const kv_answer_row *r = &z->row[i];
    if (r->place != KV_ANSWER_OWN || r->baseline || r->traces < z->traces)
      continue;
    double more = (r->value - (below ? below : best)->value) * z->x.by->better;
    if (r->share < z->share && more > 0) below = r;
  }
  if (below)
    put(t, "; %s has %.2g at %.3g %%", below->method, below->value,
        100 * below->share);
}

static void put_best(text *t, const kv_answer_size *z) {
  double percent = 100 * z->share;
  if (z->best < 0) {
    put(t, "none at %.4g %%", percent);
    return;
  }
  const kv_answer_row *r = &z->row[z->best];
  put(t, "%s at %.4g %% (%.2g", r->method, percent, r->value);
  put_alike(t, z);
  put_below(t, z);
  put(t, ")");
}

/* How many methods, without baselines, have other bytes or only some traces. */
static void put_missing(text *t, const kv_answer_size *z) {
  int all = 0, missing = 0;
  for (int i = 0; i < z->n; i++) {
    if (z->row[i].baseline) continue;
    all++;
    missing += z->row[i].place != KV_ANSWER_EQUAL;
  }
  put(t, "%d of %d methods at %.4g %%", missing, all, 100 * z->share);
}

/* The number of traces, and whether they give a verdict. */
static void put_verdict(text *t, const kv_answer *a) {
  int few = a->size[0].traces, weak = 0;
  for (int i = 0; i < a->sizes; i++) {
    if (a->size[i].traces < few) few = a->size[i].traces;
    weak += a->size[i].tests && !a->size[i].able;
  }
  if (few < KV_PAIRS_LEAST)
    put(t,
        ": means of %d trace%s; a verdict needs %d, so methods near each other "
        "are not separated",
        few, few == 1 ? "" : "s", KV_PAIRS_LEAST);
  else
    put(t,
        ": means of %d traces; a method not named as a tie is worse (Holm's p "
        "< .05 of sign flips)",
        few);
  if (weak) put(t, " (too few for as many comparisons, at %d sizes)", weak);
}

static void say_unequal(text *t) {
  put(t, "No answer: no method ran at equal bytes. kvreplay run TRACE... -m "
         "all -b mean:10%%,mean:20%%,mean:40%%,traffic:20%% --db FILE compares "
         "fairly.");
}

void kv_answer_say(const kv_answer *a, char out[KV_ANSWER_SAID]) {
  text t = {out, 0};
  *out = 0;
  if (!a->sizes) {
    say_unequal(&t);
    return;
  }
  put(&t, "Best at equal bytes, by %s (%s): ", a->by->name, a->by->what);
  for (int i = 0; i < a->sizes; i++) {
    put_between(&t, a, i);
    put_best(&t, &a->size[i]);
  }
  put_verdict(&t, a);
  put(&t, "; not covered, because they have other bytes on some trace: ");
  for (int i = 0; i < a->sizes; i++) {
    put_between(&t, a, i);
    put_missing(&t, &a->size[i]);
  }
  put(&t, ".");
  if (a->repeated.rows) put(&t, " %s", kv_grid_text(&a->repeated, 0, "said"));
}

/* --- the inverse query ---------------------------------------------------- */

#define NEEDLE 0.9 /* of dense's */
#define KL 0.1     /* nats */

static bool by_needle(const kv_answer *a) { return a->by->better > 0; }

static bool meets(const kv_answer *a, const kv_answer_size *z,
                  const kv_answer_row *r) {
  if (r->baseline || !r->traces || r->traces < z->traces) return false;
  return by_needle(a) ? r->value >= NEEDLE : r->kl <= KL;
}

/* Among methods that meet the bound, at all sizes of a kind, the one with the
 * fewest bytes whose method is not in had[n]. NULL: none. */
static const kv_answer_row *next_of(const kv_answer *a, bool reads,
                                    const kv_answer_row *const *had, int n) {
  const kv_answer_row *least = NULL;
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    for (int j = 0; j < z->n && z->reads == reads; j++) {
      const kv_answer_row *r = &z->row[j];
      bool old = !meets(a, z, r) || !(r->share > 0);
      for (int k = 0; k < n; k++) old |= !strcmp(had[k]->method, r->method);
      if (!old && (!least || r->share < least->share)) least = r;
    }
  }
  return least;
}

static bool put_fewest(text *t, const kv_answer *a, bool reads) {
  const kv_answer_row *had[NAMED], *r;
  int n = 0;
  for (; n < NAMED && (r = next_of(a, reads, had, n)); n++) {
    had[n] = r;
    put(t, "%s%s (%.3g %%)", n ? ", then " : "", r->method, 100 * r->share);
  }
  return n > 0;
}

void kv_answer_say_fewest(const kv_answer *a, char out[KV_ANSWER_SAID]) {
  text t = {out, 0};
  *out = 0;
  if (!a->sizes) return;
  if (by_needle(a))
    put(&t, "Conversely, the fewest bytes for a needle of %.2g: ", NEEDLE);
  else
    put(&t, "Conversely, the fewest bytes for a KL of at most %.2g: ", KL);
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    if (i && z->reads == z[-1].reads) continue;
    put(&t, "%s%s, ", i ? "; " : "", kind(z));
    if (!put_fewest(&t, a, z->reads)) put(&t, "nobody");
  }
  put(&t,
      ", of these rows; kvreplay tune TRACE... -m all %s --least "
      "mean_bytes searches between the sizes.",
      by_needle(a) ? "--at-least needle_share=0.9" : "--at-most kl=0.1");
}

#define TABLE                                                                  \
  "CREATE TEMP TABLE answered_at(basis TEXT, asked TEXT, reads INTEGER,"       \
  " size REAL, rank INTEGER, method TEXT, baseline INTEGER, place TEXT,"       \
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
  const int whole[] = {2,           z->reads, 4,        i,  6,
                       r->baseline, 8,        r->alike, 10, r->traces};
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
    "(34%): not at equal bytes but at 34 % of dense's, because the method has "
    "no budget or none closer. from 35%: on some trace the method cannot hold, "
    "or read, fewer bytes. (3 of 4): only three traces reach this size, so the "
    "method is not ranked; on the others it cannot, for example when it "
    "compresses only the prompt and decode steps are many. baseline: only for "
    "comparison.";

int kv_answer_ask(sqlite3 *db, const kv_answer *a, bool reads, kv_grid *out) {
  sqlite3_str *sql = sqlite3_str_new(db);
  int first = -1, n = 0;
  *out = (kv_grid){0};
  sqlite3_str_appendall(sql,
                        "SELECT method || iif(baseline, ', baseline', '') AS"
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
  char *query = sqlite3_str_finish(sql);
  if (!query) return kv_tell_short();
  int rc = n ? kv_grid_ask(db, query, 0, NULL, out) : KV_EXIT_OK;
  sqlite3_free(query);
  return rc;
}
