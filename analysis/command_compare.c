/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport compare: is one method better than others on the same traces, at the
 * same bytes? One line and one verdict for each other method.
 */
#include "analysis/commands.h"
#include "analysis/compare/paired.h"
#include "analysis/compare/rows.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/output.h"
#include "traces/option/help.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows whose bytes differ by more than this share are not compared. */
#define APART 0.1
#define LEVEL 0.05

/* A comparison with one other method. */
typedef struct line {
  int other; /* variant */
  kv_pairs pairs;
  kv_paired found; /* if pairs.n > 0 */
  bool equal;      /* at equal bytes */
  bool tested;     /* and with enough traces: part of Holm's correction */
  double holm;     /* if tested */
  double needed;   /* if equal: pairs needed to separate all such methods */
} line;

typedef struct lines {
  kv_compare_rows x;
  int method, n; /* the variant; how many lines */
  line *line;    /* [x.v.n] */
  int tests;
} lines;

static int add(lines *l, int other) {
  line *next = &l->line[l->n];
  for (int i = 0; i < l->n; i++)
    if (l->line[i].other == other) return KV_EXIT_OK;
  if (other == l->method) return KV_EXIT_OK;
  *next = (line){.other = other};
  next->pairs.d = malloc(((size_t)l->x.g.rows + 1) * sizeof *next->pairs.d);
  l->n += next->pairs.d != NULL;
  return next->pairs.d ? KV_EXIT_OK : kv_tell_short();
}

static int add_all(lines *l) {
  int rc = KV_EXIT_OK;
  for (int i = 0; i < l->x.v.n && !rc; i++) rc = add(l, i);
  return rc;
}

/* --vs A,B,..: NULL and "all" mean every other. */
static int add_named(lines *l, const char *vs) {
  char *all = strdup(vs ? vs : "all"), *rest = all, *one;
  int rc = all ? KV_EXIT_OK : kv_tell_short();
  while (!rc && (one = strsep(&rest, ","))) {
    int other = 0;
    bool each = !strcmp(one, "all");
    rc = each ? add_all(l) : kv_compare_rows_name(&l->x, one, &other);
    if (!rc && !each) rc = add(l, other);
  }
  free(all);
  return rc;
}

static bool same_bytes(const double *share) {
  double more = share[0] > share[1] ? share[0] : share[1];
  return fabs(share[0] - share[1]) <= APART * more; /* false for NaN */
}

static int test(lines *l) {
  double *p = malloc(((size_t)l->n + 1) * 2 * sizeof *p), *holm = p + l->n;
  bool good = p != NULL;
  int m = 0, equal = 0;
  for (int i = 0; i < l->n && good; i++) {
    line *x = &l->line[i];
    kv_compare_rows_pair(&l->x, l->method, x->other, &x->pairs);
    x->equal = x->pairs.n && same_bytes(x->pairs.share);
    if (!x->equal) continue;
    equal++;
    good = kv_paired_find(x->pairs.n, x->pairs.d, &x->found);
    x->tested = x->pairs.n >= KV_PAIRS_LEAST;
    if (x->tested) p[m++] = x->found.p;
  }
  good = good && kv_paired_holm(m, p, holm);
  l->tests = m;
  for (int i = 0, k = 0; i < l->n && good; i++) {
    line *x = &l->line[i];
    if (x->equal) x->needed = kv_paired_needed(&x->found, equal);
    if (x->tested) x->holm = holm[k++];
  }
  free(p);
  return good ? KV_EXIT_OK : kv_tell_short();
}

/* --- verdicts ------------------------------------------------------------- */

enum { VERDICT = 240 };

/* The unit of a pair. */
static const char *units(const lines *l) {
  return l->x.by->answered ? "items" : "traces";
}

static void say_difference(const lines *l, const line *x, bool better,
                           char *out) {
  const kv_paired *f = &x->found;
  int on = (f->mean > 0) ? f->above : f->below;
  snprintf(out, VERDICT, "%s on %d of %d %s, %.3g [%.3g, %.3g]",
           better ? "better" : "worse", on, f->n, units(l), f->mean, f->low,
           f->high);
}

/* Rounds up to two digits. */
static double rounded(double x) {
  double unit = 1;
  while (x / unit > 100) unit *= 10;
  return ceil(x / unit) * unit;
}

static void say_none(const lines *l, const line *x, char *out) {
  const kv_paired *f = &x->found;
  int n = snprintf(out, VERDICT, "not distinguishable: %.3g \u00b1 %.2g",
                   f->mean, (f->high - f->low) / 2);
  if (f->p_least * l->tests >= LEVEL)
    snprintf(out + n, (size_t)(VERDICT - n),
             "; %d %s cannot tell %d comparisons apart", f->n, units(l),
             l->tests);
  else if (isfinite(x->needed))
    snprintf(out + n, (size_t)(VERDICT - n), ", %s %.0f %s would be needed",
             x->needed > f->n ? "about" : "more than",
             x->needed > f->n ? rounded(x->needed) : f->n, units(l));
}

static void verdict(const lines *l, const line *x, char *out) {
  if (!x->pairs.n)
    snprintf(out, VERDICT, "none of the %s has both", units(l));
  else if (!x->equal)
    snprintf(out, VERDICT,
             isnan(x->pairs.share[0] + x->pairs.share[1])
                 ? "not compared: bytes are unknown; run dense as well"
                 : "not compared: %.3g %% of dense's bytes and %.3g %%",
             100 * x->pairs.share[0], 100 * x->pairs.share[1]);
  else if (!x->tested)
    snprintf(out, VERDICT, "no verdict: %d of at least %d %s", x->pairs.n,
             KV_PAIRS_LEAST, units(l));
  else if (x->holm < LEVEL)
    say_difference(l, x, x->found.mean * l->x.by->better > 0, out);
  else
    say_none(l, x, out);
}

/* --- writing -------------------------------------------------------------- */

/* For programs: one row per comparison. A temporary table makes it a grid,
 * which is then written like any other. */
#define TABLE                                                                  \
  "CREATE TEMP TABLE comparison(method TEXT, vs TEXT, asked TEXT, measure"     \
  " TEXT, better INTEGER, pairs INTEGER, wins INTEGER, losses INTEGER, ties"   \
  " INTEGER, share REAL, share_vs REAL, difference REAL, low REAL, high REAL," \
  " p REAL, holm REAL, needed REAL, verdict TEXT)"
#define PUT                                                                    \
  "INSERT INTO comparison VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

static void bind_numbers(sqlite3_stmt *s, const lines *l, const line *x) {
  const kv_paired *f = &x->found;
  bool up = l->x.by->better > 0;
  const double share[] = {x->pairs.share[0], x->pairs.share[1]};
  const double found[] = {f->mean, f->low, f->high, f->p};
  sqlite3_bind_int(s, 5, l->x.by->better);
  sqlite3_bind_int(s, 6, x->pairs.n);
  for (int i = 0; i < 2; i++) sqlite3_bind_double(s, 10 + i, share[i]);
  if (!x->equal) return; /* unbound parameters are null */
  sqlite3_bind_int(s, 7, up ? f->above : f->below);
  sqlite3_bind_int(s, 8, up ? f->below : f->above);
  sqlite3_bind_int(s, 9, f->ties);
  for (int i = 0; i < 4; i++) sqlite3_bind_double(s, 12 + i, found[i]);
  if (x->tested) sqlite3_bind_double(s, 16, x->holm);
  sqlite3_bind_double(s, 17, x->needed);
}

static int put_line(sqlite3 *db, sqlite3_stmt *s, const lines *l,
                    const line *x) {
  char said[VERDICT];
  const char *text[] = {l->x.v.label[l->method], l->x.v.label[x->other],
                        l->x.at, l->x.by->name};
  verdict(l, x, said);
  sqlite3_clear_bindings(s);
  for (int i = 0; i < 4; i++)
    sqlite3_bind_text(s, i + 1, text[i], -1, SQLITE_STATIC);
  bind_numbers(s, l, x);
  sqlite3_bind_text(s, 18, said, -1, SQLITE_TRANSIENT);
  int step = sqlite3_step(s), end = sqlite3_reset(s);
  return step != SQLITE_DONE || end ? kv_results_fail(db, "the database")
                                    : KV_EXIT_OK;
}

static int to_grid(sqlite3 *db, const lines *l, bool paper, kv_grid *g) {
  sqlite3_stmt *s = NULL;
  int rc = KV_EXIT_OK;
  if (sqlite3_exec(db, TABLE, NULL, NULL, NULL) ||
      sqlite3_prepare_v2(db, PUT, -1, &s, NULL))
    rc = kv_results_fail(db, "the database");
  for (int i = 0; i < l->n && !rc; i++) rc = put_line(db, s, l, &l->line[i]);
  sqlite3_finalize(s);
  if (rc) return rc;
  return kv_grid_ask(db,
                     paper ? "SELECT vs, pairs, wins, losses, difference, low,"
                             " high, p, holm FROM comparison"
                           : "SELECT * FROM comparison",
                     0, NULL, g);
}

/* For people: a sentence per comparison. */
static void write_sentences(const lines *l, FILE *f) {
  const kv_compared *by = l->x.by;
  int wide = 0;
  char title[512];
  snprintf(title, sizeof title, "%s at %s, %s (%s; %s is better), against",
           l->x.v.label[l->method], l->x.at, by->name, by->what,
           by->better > 0 ? "more" : "less");
  kv_help_wrap(f, 0, 0, title);
  for (int i = 0; i < l->n; i++) {
    int n = (int)strlen(l->x.v.label[l->line[i].other]);
    wide = n > wide ? n : wide;
  }
  wide = wide > 32 ? 32 : wide;
  for (int i = 0; i < l->n; i++) {
    char said[VERDICT];
    int n = fprintf(f, "  %-*s  ", wide, l->x.v.label[l->line[i].other]);
    verdict(l, &l->line[i], said);
    kv_help_wrap(f, wide + 4, n, said);
  }
  fputs("\n", f);
  kv_help_wrap(f, 0, 0,
               "A verdict needs p < .05 by sign flips, after Holm's correction "
               "for all lines above. Brackets: 95 % of 10,000 bootstrap means; "
               "\u00b1: half of that.");
}

static int write(sqlite3 *db, const kv_args *a, const lines *l) {
  kv_grid g = {0};
  int rc = a->format == KV_TABLE
               ? kv_grid_ask(db, "SELECT said FROM repeated", 0, NULL, &g)
               : to_grid(db, l, a->format == KV_LATEX, &g);
  FILE *f = rc ? NULL : kv_output_open(a->output);
  if (!rc && !f) rc = KV_EXIT_RESOURCE;
  if (f && a->format == KV_TABLE) write_sentences(l, f);
  if (f && a->format == KV_TABLE && g.rows && !l->x.by->answered)
    kv_help_wrap(f, 0, 0, kv_grid_text(&g, 0, "said"));
  if (f && a->format != KV_TABLE)
    kv_grid_write(&g, (kv_grid_format)a->format, f);
  if (f) rc = kv_output_close(f, a->output);
  kv_grid_free(&g);
  return rc;
}

static int compare(sqlite3 *db, const kv_args *a, lines *l) {
  bool any = false;
  const kv_compared *by = kv_compared_at(a->measure);
  int rc = by->answered ? kv_results_answers(db, a->files.item[0]) : KV_EXIT_OK;
  if (!rc) rc = kv_compare_rows_find(db, by, a->at, &l->x);
  if (!rc) rc = kv_compare_rows_name(&l->x, a->method, &l->method);
  if (rc) return rc;
  l->line = calloc((size_t)l->x.v.n + 1, sizeof *l->line);
  if (!l->line) return kv_tell_short();
  rc = add_named(l, a->vs);
  if (!rc) rc = test(l);
  for (int i = 0; i < l->n; i++) any = any || l->line[i].equal;
  if (!rc) rc = write(db, a, l);
  if (!rc && !any)
    rc = kv_tell(KV_EXIT_USAGE,
                 "nothing at %s could be compared with %s; run at equal bytes "
                 "(kvreplay run -b mean:20%%)",
                 a->at, a->method);
  return rc;
}

int kv_report_compare(const kv_args *a) {
  lines l = {.n = 0};
  sqlite3 *db = NULL;
  int rc = kv_results_open(a->files.item[0], &db);
  if (!rc) rc = compare(db, a, &l);
  for (int i = 0; i < l.n; i++) free(l.line[i].pairs.d);
  free(l.line);
  kv_compare_rows_free(&l.x);
  sqlite3_close(db);
  return rc;
}
