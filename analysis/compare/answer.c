/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/answer.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A method counts as equal between these shares of the size's bytes: up to a
 * tenth fewer, as in `kvreport compare`, or more by rounding. */
#define LEAST 0.9
#define MOST 1.005
#define MOST_ENTRIES 1.1 /* of the median bytes at equal entries */

/* --- one method ----------------------------------------------------------- */

static bool is_baseline(const char *method) {
  static const char *const all[] = {"dense", "window", "random", "replay"};
  if (!strncmp(method, "kvpress/", 8)) method += 8;
  size_t n = strcspn(method, ":");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strlen(all[i]) == n && !strncmp(method, all[i], n)) return true;
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
  double share, kl, least;
  const char *why, *method;
  bool budgeted;
} sums;

static void add(sums *s, const kv_compare_rows *x, int r) {
  const char *status = kv_grid_text(&x->g, r, "status");
  if (strcmp(status, "ok") && strcmp(status, "fixed")) {
    const char *why = kv_grid_text(&x->g, r, "reason");
    double least = least_of(why);
    if (isnan(s->least) || least > s->least) s->least = least;
    s->why = s->why ? s->why : why;
    return;
  }
  s->ran++;
  s->share += x->row[r].share;
  if (isnan(x->row[r].value)) return;
  s->valued++;
  s->kl += kv_grid_number(&x->g, r, "kl");
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
  s->kl += u->kl / u->valued;
}

/* counts: [rows] rows of units in which any method has a value; bytes of others
 * do not count. */
static sums sums_of(const kv_compare_rows *x, const bool *counts, int variant) {
  sums s = {.least = NAN, .method = ""};
  for (int r = 0; r < x->g.rows;) {
    sums unit = {.least = NAN};
    for (int now = x->row[r].unit; x->row[r].unit == now; r++) {
      if (x->v.of[r] != variant) continue;
      s.method = kv_grid_text(&x->g, r, "method");
      s.budgeted = *kv_grid_text(&x->g, r, "asked");
      if (counts[r]) add(&unit, x, r);
    }
    add_unit(&s, &unit);
  }
  return s;
}

static bool find_mean(const kv_compare_rows *x, kv_pairs *pairs,
                      kv_answer_row *row) {
  kv_paired of;
  kv_compare_rows_pair(x, row->variant, -1, pairs);
  row->value = row->low = row->high = NAN;
  if (!pairs->n) return true;
  if (!(x->by->answered ? kv_paired_right(pairs->n, pairs->c, &of)
                        : kv_paired_interval(pairs->n, pairs->c, &of)))
    return false;
  row->value = of.mean;
  row->low = of.low;
  row->high = of.high;
  return true;
}

static kv_answer_place place_of(const kv_answer_size *z, const sums *s) {
  double share = s->share / s->ran, most = z->entries ? MOST_ENTRIES : MOST;
  if (s->why || !s->ran) return s->ran ? KV_ANSWER_SOME : KV_ANSWER_NONE;
  if (!(share >= LEAST * z->share && share <= most * z->share) ||
      (z->entries && !s->budgeted))
    return KV_ANSWER_OWN;
  return s->valued == z->traces ? KV_ANSWER_EQUAL : KV_ANSWER_SOME;
}

/* The lower median of the shares of methods with a budget. */
static double median(int n, const sums *s) {
  double best = NAN;
  for (int i = 0; i < n; i++) {
    double share = s[i].share / s[i].ran;
    int less = 0;
    for (int j = 0; j < n; j++)
      if (s[j].budgeted && s[j].ran)
        less += s[j].share / s[j].ran > share ? -1 : 1;
    if (s[i].budgeted && s[i].ran && less >= 0 && !(best <= share))
      best = share;
  }
  return best;
}

/* --- one size ------------------------------------------------------------- */

/* Counts what any method has a value on, and marks its rows. */
static void count(kv_answer_size *z, bool *counts) {
  const kv_compare_row *row = z->x.row, *had = NULL;
  for (int first = 0, end; first < z->x.g.rows; first = end) {
    bool any = false;
    for (end = first; row[end].unit == row[first].unit; end++)
      any = any || !isnan(row[end].value);
    for (int r = first; r < end; r++) counts[r] = any;
    if (!any) continue;
    z->traces++;
    z->contexts += !had || had->cluster != row[first].cluster;
    z->tasks += !had || had->task != row[first].task;
    had = &row[first];
  }
}

static bool fill(kv_answer_size *z, bool *counts, sums *s, kv_pairs *pairs) {
  count(z, counts);
  for (int i = 0; i < z->n; i++) s[i] = sums_of(&z->x, counts, i);
  if (z->entries) z->share = median(z->n, s);
  for (int i = 0; i < z->n; i++) {
    kv_answer_row *r = &z->row[i];
    *r = (kv_answer_row){.method = z->x.v.label[i],
                         .variant = i,
                         .place = place_of(z, &s[i]),
                         .baseline = is_baseline(s[i].method),
                         .traces = s[i].valued,
                         .kl = s[i].kl / s[i].valued,
                         .p = NAN,
                         .share = s[i].ran ? s[i].share / s[i].ran : s[i].least,
                         .why = s[i].why ? s[i].why : ""};
    if (!find_mean(&z->x, pairs, r)) return false;
  }
  return true;
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

/* Compares a size's best with each rival, by the tests of `kvreport compare`,
 * and with dense. p[*m]: where the p of each test is. */
static bool compare(kv_answer_size *z, kv_pairs *pairs, double **p, int *m) {
  bool can = z->best >= 0 && z->contexts >= KV_PAIRS_LEAST &&
             z->trust != KV_TRUST_REFUSED;
  z->margin = NAN;
  for (int i = 0; can && i < z->n; i++) {
    kv_answer_row *r = &z->row[i];
    bool dense = z->x.by->answered && !strcmp(r->method, "dense");
    bool rival = i != z->best && r->place == KV_ANSWER_EQUAL && !r->baseline;
    if (!dense && !rival) continue;
    kv_compare_rows_pair(&z->x, z->row[z->best].variant, r->variant, pairs);
    if (!pairs->n || !kv_paired_find(pairs->n, pairs->c, &r->found))
      return false;
    z->tests += rival;
    if (rival)
      r->p = r->found.p;
    else if (kv_paired_margin_least(&r->found, KV_MARGIN) < KV_LEVEL)
      z->margin = kv_paired_margin(&r->found, KV_MARGIN);
    else
      continue;
    p[(*m)++] = rival ? &r->p : &z->margin;
  }
  return true;
}

/* Marks methods that are not significantly worse than the best, after m tests
 * at all sizes. */
static void conclude(kv_answer_size *z, int m) {
  z->able = true;
  for (int i = 0; i < z->n; i++) {
    kv_answer_row *r = &z->row[i];
    r->alike = i == z->best || r->p >= KV_LEVEL;
    if (isnan(r->p)) continue;
    z->able = z->able && r->found.p_least * m < KV_LEVEL;
    double least =
        kv_paired_detectable((int)(r->found.equal + 1e-6), m, r->found.square);
    if (r->alike) z->detects = fmax(z->detects, least);
  }
}

static bool tell_apart(kv_answer *a) {
  size_t n = 1, rows = 1;
  for (int i = 0; i < a->sizes; i++) {
    n += (size_t)a->size[i].n;
    rows += (size_t)a->size[i].x.clusters;
  }
  kv_pairs pairs = {.c = malloc(rows * sizeof *pairs.c)};
  double **p = malloc(n * sizeof *p);
  bool good = pairs.c && p;
  for (int i = 0; i < a->sizes && good; i++)
    good = compare(&a->size[i], &pairs, p, &a->tests);
  if (good) kv_paired_holm(a->tests, p);
  for (int i = 0; i < a->sizes && good; i++) conclude(&a->size[i], a->tests);
  free(pairs.c);
  free(p);
  return good;
}

/* The share that a budget in bytes asks for, "mean:20%"; NaN: it is no share.
 */
static double share_of(const char *at) {
  const char *number = strchr(at, ':');
  return strchr(at, '%') ? atof(number ? number + 1 : at) / 100 : NAN;
}

static int find_size(sqlite3 *db, const kv_compared *by, const kv_grid *asked,
                     int i, kv_answer_size *z) {
  const char *at = kv_grid_text(asked, i, "asked");
  *z = (kv_answer_size){.reads = kv_grid_number(asked, i, "reads") > 0,
                        .entries = kv_grid_number(asked, i, "entries") > 0,
                        .share = share_of(at),
                        .best = -1};
  int rc = kv_compare_rows_all(db, by, at, true, &z->x);
  if (rc) return rc;
  z->n = z->x.v.n;
  z->row = calloc((size_t)z->n + 1, sizeof *z->row);
  bool *counts = calloc((size_t)z->x.g.rows + 1, sizeof *counts);
  sums *s = calloc((size_t)z->n + 1, sizeof *s);
  kv_pairs pairs = {.c = malloc(((size_t)z->x.clusters + 1) * sizeof *pairs.c)};
  bool good = z->row && counts && s && pairs.c && fill(z, counts, s, &pairs) &&
              kv_compare_rows_trust(&z->x, &z->trust);
  free(counts);
  free(s);
  free(pairs.c);
  if (!good) return kv_tell_short();
  sort_rows(z);
  return KV_EXIT_OK;
}

/* --- all sizes ------------------------------------------------------------ */

#define NUMBER "CAST(substr(asked, 1 + instr(asked, ':')) AS REAL)"
#define SIZES                                                                  \
  "SELECT DISTINCT asked, basis, basis IN ('read', 'traffic') AS reads,"       \
  " 0 AS entries FROM cell WHERE basis IN ('mean', 'end', 'read', 'traffic')"  \
  " ORDER BY reads, basis, " NUMBER
#define BUDGETS                                                                \
  "SELECT DISTINCT target AS asked, basis, basis IN ('read', 'traffic') AS"    \
  " reads, basis NOT IN ('mean', 'end', 'peak', 'read', 'traffic') AS entries" \
  " FROM newest_evaluation WHERE target <> '' AND (model_digest, platform,"    \
  " task) IN (SELECT model_digest, platform, task FROM task_mean WHERE"        \
  " measure = 'exact' AND measurable) ORDER BY entries, reads, basis, " NUMBER

/* All sizes that the query lists, by out->by. */
static int find(sqlite3 *db, const char *sizes, kv_answer *out) {
  int rc = kv_grid_ask(db, sizes, 0, NULL, &out->asked);
  if (rc) return rc;
  int n = out->asked.rows;
  out->size = calloc((size_t)n + 1, sizeof *out->size);
  if (!out->size) return kv_tell_short();
  for (; out->sizes < n && !rc; out->sizes++)
    rc =
        find_size(db, out->by, &out->asked, out->sizes, &out->size[out->sizes]);
  return rc || tell_apart(out) ? rc : kv_tell_short();
}

int kv_answer_find(sqlite3 *db, kv_answer *out) {
  *out = (kv_answer){.by = kv_compared_at(0)};
  int rc =
      kv_grid_ask(db, "SELECT said FROM repeated", 0, NULL, &out->repeated);
  return rc ? rc : find(db, SIZES, out);
}

int kv_answer_find_right(sqlite3 *db, kv_answer *out) {
  *out = (kv_answer){.by = kv_compared_named("exact_match")};
  return find(db, BUDGETS, out);
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
    const kv_answer_size *z = &a->size[i];
    if (z->traces < few) few = z->traces;
    weak += z->tests && !z->able;
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

/* Where the measure was not checked against random, or fails. */
static void put_trust(text *t, const kv_answer *a) {
  int unknown = 0;
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    unknown += z->tests && z->trust == KV_TRUST_UNKNOWN;
    if (z->trust == KV_TRUST_REFUSED)
      put(t, " No verdict at %s: %s does not place random below oracle-evict.",
          z->x.at, a->by->name);
  }
  if (unknown)
    put(t,
        " Not checked at %d size%s: whether %s places random below "
        "oracle-evict.",
        unknown, unknown == 1 ? "" : "s", a->by->name);
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
  put_trust(&t, a);
  if (a->repeated.rows) put(&t, " %s", kv_grid_text(&a->repeated, 0, "said"));
}

/* --- the inverse query ---------------------------------------------------- */

#define KL 0.1 /* nats */

static bool meets(const kv_answer_size *z, const kv_answer_row *r) {
  return !r->baseline && r->traces && r->traces >= z->traces && r->kl <= KL;
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
      bool old = !meets(z, r) || !(r->share > 0);
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
  put(&t, "Conversely, the fewest bytes for a KL of at most %.2g: ", KL);
  for (int i = 0; i < a->sizes; i++) {
    const kv_answer_size *z = &a->size[i];
    if (i && z->reads == z[-1].reads) continue;
    put(&t, "%s%s, ", i ? "; " : "", kind(z));
    if (!put_fewest(&t, a, z->reads)) put(&t, "nobody");
  }
  put(&t,
      ", of these rows; kvreplay tune TRACE... -m all --at-most kl=0.1 --least "
      "mean_bytes searches between the sizes.");
}

#define TABLE                                                                  \
  "CREATE TEMP TABLE %s(basis TEXT, asked TEXT, reads INTEGER, size REAL,"     \
  " rank INTEGER, method TEXT, baseline INTEGER, place TEXT, alike INTEGER,"   \
  " measure TEXT, traces INTEGER, value REAL, share REAL, kl REAL, reason"     \
  " TEXT, shown TEXT, low REAL, high REAL, contexts INTEGER, tasks INTEGER,"   \
  " verdict TEXT)"
#define PUT                                                                    \
  "INSERT INTO %s VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"  \
  " ?13, ?14, nullif(?15, ''), ?16, ?17, ?18, ?19, ?20, ?21)"

static int fail(sqlite3 *db) {
  return kv_tell(KV_EXIT_RESOURCE, "the answer: %.300s", sqlite3_errmsg(db));
}

static const char *table(const kv_answer *a) {
  return a->by->answered ? "closed_all" : "answered_at";
}

static void show(const kv_answer_size *z, const kv_answer_row *r, size_t size,
                 char *out) {
  char at[32] = "?", value[40];
  int n = snprintf(value, sizeof value, "%.3g", r->value);
  if (z->x.by->answered)
    n = snprintf(value, sizeof value, "%.0f%%", 100 * r->value);
  if (z->x.by->answered && !isnan(r->low))
    snprintf(value + n, sizeof value - (size_t)n, " [%.0f, %.0f]", 100 * r->low,
             100 * r->high);
  if (!isnan(r->share)) snprintf(at, sizeof at, "%.2g%%", 100 * r->share);
  if (r->share >= 0.9995) snprintf(at, sizeof at, "%.0f%%", 100 * r->share);
  if (r->place == KV_ANSWER_NONE)
    snprintf(out, size, isnan(r->share) ? "-" : "from %s", at);
  else if (isnan(r->value))
    snprintf(out, size, "- (%s)", at);
  else if (r->place == KV_ANSWER_OWN)
    snprintf(out, size, "%s (%s)", value, at);
  else if (r->place == KV_ANSWER_SOME)
    snprintf(out, size, "%s (%d of %d)", value, r->traces, z->traces);
  else
    snprintf(out, size, "%s", value);
}

static void verdict(const kv_answer_size *z, int i, size_t size, char *out) {
  const char *best = z->best < 0 ? "" : z->row[z->best].method;
  double p = z->row[i].p;
  *out = 0;
  if (z->best >= 0 && z->row[i].place == KV_ANSWER_EQUAL &&
      z->contexts < KV_PAIRS_LEAST)
    snprintf(out, size, "no verdict: %d of at least %d contexts", z->contexts,
             KV_PAIRS_LEAST);
  else if (i == z->best && z->margin < KV_LEVEL)
    snprintf(out, size, "less than %.0f points worse than dense",
             100 * KV_MARGIN);
  else if (!isnan(p))
    snprintf(out, size, "%s %s",
             p < KV_LEVEL ? "worse than" : "not distinguishable from", best);
}

static int put_row(sqlite3 *db, sqlite3_stmt *s, const kv_answer *a, int at,
                   int i) {
  static const char *const places[] = {"equal", "some", "own", "none"};
  const kv_answer_size *z = &a->size[at];
  const kv_answer_row *r = &z->row[i];
  char shown[80], said[160];
  show(z, r, sizeof shown, shown);
  verdict(z, i, sizeof said, said);
  const char *word[22] = {[1] = kv_grid_text(&a->asked, at, "basis"),
                          [2] = z->x.at,
                          [6] = r->method,
                          [8] = places[r->place],
                          [10] = a->by->name,
                          [15] = r->why,
                          [16] = shown,
                          [21] = said};
  const double number[22] = {
      [3] = z->reads,    [4] = share_of(z->x.at), [5] = i,
      [7] = r->baseline, [9] = r->alike,          [11] = r->traces,
      [12] = r->value,   [13] = r->share,         [14] = r->kl,
      [17] = r->low,     [18] = r->high,          [19] = z->contexts,
      [20] = z->tasks};
  for (int k = 1; k < 22; k++) /* NaN becomes null */
    word[k] ? sqlite3_bind_text(s, k, word[k], -1, SQLITE_TRANSIENT)
            : sqlite3_bind_double(s, k, number[k]);
  int step = sqlite3_step(s), end = sqlite3_reset(s);
  return step != SQLITE_DONE || end ? fail(db) : KV_EXIT_OK;
}

int kv_answer_put(sqlite3 *db, const kv_answer *a) {
  char *make = sqlite3_mprintf(TABLE, table(a));
  char *put = sqlite3_mprintf(PUT, table(a));
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK;
  if (!make || !put || sqlite3_exec(db, make, NULL, NULL, NULL) ||
      sqlite3_prepare_v2(db, put, -1, &s, NULL))
    rc = fail(db);
  for (int i = 0; i < a->sizes; i++)
    for (int j = 0; j < a->size[i].n && !rc; j++) rc = put_row(db, s, a, i, j);
  sqlite3_finalize(s);
  sqlite3_free(make);
  sqlite3_free(put);
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
    if (z->reads != reads && !a->by->answered) continue;
    if (n++ == 0) first = i;
    sqlite3_str_appendf(sql, ", max(iif(asked = %Q, shown, NULL)) AS %Q",
                        z->x.at, z->x.at);
  }
  if (n)
    sqlite3_str_appendf(sql,
                        " FROM %s WHERE reads = %d OR %d GROUP BY method"
                        " ORDER BY max(iif(asked = %Q, rank, NULL)), method",
                        table(a), reads, a->by->answered,
                        a->size[first + n / 2].x.at);
  char *query = sqlite3_str_finish(sql);
  if (!query) return kv_tell_short();
  int rc = n ? kv_grid_ask(db, query, 0, NULL, out) : KV_EXIT_OK;
  sqlite3_free(query);
  return rc;
}
