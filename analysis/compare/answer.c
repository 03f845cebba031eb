/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the answer: analysis/compare/answer.h.
 */
#include "analysis/compare/answer.h"
#include "analysis/compare/paired.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By which measure, the first that cells have a value of. Which rank answers is
 * measured: analysis/README.md, what ranks answers. */
static const char *const order[] = {"needle", "output_abs_p99"};

/* Shares of the size's bytes between which a method counts as equal: a tenth
 * fewer, as `kvreport compare` has it, and more by rounding alone. */
#define LEAST 0.9
#define MOST 1.005
#define LEVEL 0.05

static int no_memory(void) {
  return kv_tell(KV_EXIT_RESOURCE, "not enough memory");
}

/* --- one method ----------------------------------------------------------- */

static bool is_ruler(const char *method) {
  static const char *const all[] = {"dense", "window", "random", "replay"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(method, all[i])) return true;
  return !strncmp(method, "oracle-", 7);
}

/* The share of dense's bytes that the sentence of a refusal names, "(35.5 %),
 * more than mean:10%" (sim/spec/budget_search.c); NaN: none. */
static double least_of(const char *reason) {
  const char *at = strstr(reason, " %), more than ");
  double share = NAN;
  while (at && at > reason && *at != '(') at--;
  if (at && sscanf(at, "(%lf %%)", &share) == 1) return share / 100;
  return NAN;
}

/* Sums of what the rows of a variant have in a unit, or units in all. */
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

/* Adds a unit: its means. */
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

/* counts: [rows] those of units that any method has a value on; a trace
 * without a marked answer says nothing about needle, nor about bytes there. */
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
                       .ruler = is_ruler(s.method),
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

/* Best first, by places; without a value by bytes, then as named. */
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
    if (z->row[i].place == KV_ANSWER_EQUAL && !z->row[i].ruler) z->best = i;
}

static bool rivals(const kv_answer_size *z, int i) {
  return i != z->best && z->row[i].place == KV_ANSWER_EQUAL && !z->row[i].ruler;
}

/* Who cannot be told from the best, as `kvreport compare` tells. */
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
  if (!counts || !z->row) return no_memory();
  sort_rows(z);
  if (z->best < 0) return KV_EXIT_OK;
  z->row[z->best].alike = true;
  return z->traces < KV_PAIRS_LEAST || tell_apart(z) ? KV_EXIT_OK : no_memory();
}

/* --- all of it ------------------------------------------------------------ */

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
  if (!out->size) return no_memory();
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
