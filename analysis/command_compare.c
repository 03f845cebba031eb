/* SPDX-License-Identifier: Apache-2.0
 *
 * kvreport compare: is one method better than others on the same traces or
 * questions, at the same bytes? One line and one verdict for each other method.
 */
#include "analysis/commands.h"
#include "analysis/compare/rows.h"
#include "analysis/database/paired.h"
#include "analysis/database/results.h"
#include "analysis/database/say.h"
#include "analysis/tables/grid_write.h"
#include "analysis/tables/output.h"
#include "traces/option/help.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A comparison with one other method. */
typedef struct line {
  int other; /* variant */
  kv_pairs pairs;
  kv_paired found; /* if pairs.n > 0 */
  bool equal;      /* at equal bytes */
  bool tested;     /* and with enough clusters: part of Holm's correction */
  double holm;     /* if tested */
  double margin, margin_holm; /* p of being worse by the margin; NaN: so many
                                 clusters cannot show that it is not */
  double needed; /* if equal: clusters needed to separate all such methods */
} line;

typedef struct lines {
  kv_compare_rows x;
  int method, n; /* the variant; how many lines */
  line *line;    /* [x.v.n] */
  int tests;
  double margin; /* of shares, .05 */
  kv_trust trust;
} lines;

static int add(lines *l, int other) {
  line *next = &l->line[l->n];
  for (int i = 0; i < l->n; i++)
    if (l->line[i].other == other) return KV_EXIT_OK;
  if (other == l->method) return KV_EXIT_OK;
  *next = (line){.other = other};
  next->pairs.c = malloc(((size_t)l->x.clusters + 1) * sizeof *next->pairs.c);
  l->n += next->pairs.c != NULL;
  return next->pairs.c ? KV_EXIT_OK : kv_tell_short();
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

/* Tests one line, unless bytes differ. p[*m]: where the p of each test is: of
 * the difference and, if so many clusters can show it, of the margin. */
static bool test_line(const lines *l, line *x, double **p, int *m) {
  kv_compare_rows_pair(&l->x, l->method, x->other, &x->pairs);
  x->equal = x->pairs.n && kv_compare_same_bytes(x->pairs.share);
  x->margin = x->margin_holm = NAN;
  if (!x->equal) return true;
  if (!kv_paired_find(x->pairs.n, x->pairs.c, &x->found)) return false;
  x->tested = x->pairs.n >= KV_PAIRS_LEAST && l->trust != KV_TRUST_REFUSED;
  if (!x->tested) return true;
  x->holm = x->found.p;
  p[(*m)++] = &x->holm;
  if (!l->x.by->points ||
      kv_paired_margin_least(&x->found, l->margin) >= KV_LEVEL)
    return true;
  x->margin = x->margin_holm = kv_paired_margin(&x->found, l->margin);
  p[(*m)++] = &x->margin_holm;
  return true;
}

/* All tests of the call are one family. */
static int test(lines *l) {
  double **p = malloc(((size_t)l->n + 1) * 2 * sizeof *p);
  bool good = p && kv_compare_rows_trust(&l->x, &l->trust);
  int equal = 0;
  for (int i = 0; i < l->n && good; i++) {
    good = test_line(l, &l->line[i], p, &l->tests);
    equal += l->line[i].equal;
  }
  if (good) kv_paired_holm(l->tests, p);
  if (l->tests > equal) equal = l->tests;
  for (int i = 0; i < l->n && good; i++)
    l->line[i].needed = kv_paired_needed(&l->line[i].found, equal);
  free(p);
  return good ? KV_EXIT_OK : kv_tell_short();
}

/* --- verdicts ------------------------------------------------------------- */

enum { VERDICT = 400 };

static const char *units(const lines *l) {
  return l->x.by->answered ? "questions" : "traces";
}

static const char *clusters(const lines *l) {
  return l->x.by->answered ? "contexts" : "traces";
}

/* Adds to a verdict. */
static void more(char *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void more(char *out, const char *format, ...) {
  size_t n = strlen(out);
  va_list all;
  va_start(all, format);
  vsnprintf(out + n, VERDICT - n, format, all);
  va_end(all);
}

/* Right answers also by how many each method alone has. */
static void say_difference(const lines *l, const line *x, bool better,
                           char *out) {
  const kv_paired *f = &x->found;
  int on = (f->mean > 0) ? f->above : f->below, off = f->above + f->below - on;
  more(out, "%s on %d of %d %s", better ? "better" : "worse", on, f->values,
       units(l));
  if (off) more(out, " and %s on %d", better ? "worse" : "better", off);
  more(out, ", %.3g [%.3g, %.3g]", f->mean, f->low, f->high);
}

/* The difference that the line's clusters detect in all tests of the call. */
static double detects(const lines *l, const line *x) {
  const kv_paired *f = &x->found;
  if (l->x.by->points)
    return kv_paired_detectable((int)(f->equal + 1e-6), l->tests, f->square);
  return fabs(f->mean) * sqrt(x->needed / f->equal);
}

/* Rounds up to two digits. */
static double rounded(double x) {
  double unit = 1;
  while (x / unit > 100) unit *= 10;
  return ceil(x / unit) * unit;
}

static void say_none(const lines *l, const line *x, char *out) {
  const kv_paired *f = &x->found;
  more(out, "not distinguishable: %.3g \u00b1 %.2g", f->mean,
       (f->high - f->low) / 2);
  if (l->x.by->answered)
    more(out, ", better on %d of %d questions, worse on %d",
         l->x.by->better > 0 ? f->above : f->below, f->values,
         l->x.by->better > 0 ? f->below : f->above);
  if (f->p_least * l->tests >= KV_LEVEL)
    more(out, "; %d %s cannot tell %d comparisons apart", f->n, clusters(l),
         l->tests);
  else if (isfinite(x->needed))
    more(out, ", %s %.0f %s would be needed",
         x->needed > f->n ? "about" : "more than",
         x->needed > f->n ? rounded(x->needed) : f->n, clusters(l));
}

/* What so many clusters detect, and whether the difference is below the
 * margin. */
static void say_reach(const lines *l, const line *x, char *out) {
  double points = ceil(100 * detects(l, x)), margin = 100 * l->margin;
  if (x->margin_holm < KV_LEVEL)
    more(out, "; less than %.3g points worse", margin);
  else if (l->x.by->points && x->holm >= KV_LEVEL)
    more(out, "; not shown to be less than %.3g points worse", margin);
  if (points <= 100 && l->x.by->points)
    more(out, "; %d %s detect %.0f points", x->found.n, clusters(l), points);
}

static void verdict(const lines *l, const line *x, char *out) {
  *out = 0;
  if (!x->pairs.n) {
    more(out, "none of the %s has both", units(l));
  } else if (!x->equal) {
    more(out,
         isnan(x->pairs.share[0] + x->pairs.share[1])
             ? "not compared: bytes are unknown; run dense as well"
             : "not compared: %.3g %% of dense's bytes and %.3g %%",
         100 * x->pairs.share[0], 100 * x->pairs.share[1]);
  } else if (l->trust == KV_TRUST_REFUSED) {
    more(out, "refused: %s does not place random below oracle-evict at %s",
         l->x.by->name, l->x.at);
  } else if (!x->tested) {
    more(out, "no verdict: %d of at least %d %s", x->pairs.n, KV_PAIRS_LEAST,
         clusters(l));
  } else {
    if (x->holm < KV_LEVEL)
      say_difference(l, x, x->found.mean * l->x.by->better > 0, out);
    else
      say_none(l, x, out);
    say_reach(l, x, out);
  }
}

/* --- writing -------------------------------------------------------------- */

/* For programs: one row per comparison. A temporary table makes it a grid,
 * which is then written like any other. */
#define TABLE                                                                  \
  "CREATE TEMP TABLE comparison(method TEXT, vs TEXT, asked TEXT, measure"     \
  " TEXT, better INTEGER, pairs INTEGER, wins INTEGER, losses INTEGER, ties"   \
  " INTEGER, share REAL, share_vs REAL, difference REAL, low REAL, high REAL," \
  " p REAL, holm REAL, needed REAL, verdict TEXT, clusters INTEGER, tasks"     \
  " INTEGER, margin REAL, margin_p REAL, margin_holm REAL, detects REAL,"      \
  " checked TEXT)"
#define PUT                                                                    \
  "INSERT INTO comparison VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?" \
  ",?,?,?)"

static void bind_numbers(sqlite3_stmt *s, const lines *l, const line *x) {
  const kv_paired *f = &x->found;
  bool up = l->x.by->better > 0;
  const double share[] = {x->pairs.share[0], x->pairs.share[1]};
  const double found[] = {f->mean, f->low, f->high, f->p};
  sqlite3_bind_int(s, 5, l->x.by->better);
  sqlite3_bind_int(s, 6, x->pairs.units);
  for (int i = 0; i < 2; i++) sqlite3_bind_double(s, 10 + i, share[i]);
  sqlite3_bind_int(s, 19, x->pairs.n);
  if (!x->equal) return; /* unbound parameters are null */
  sqlite3_bind_int(s, 7, up ? f->above : f->below);
  sqlite3_bind_int(s, 8, up ? f->below : f->above);
  sqlite3_bind_int(s, 9, f->ties);
  for (int i = 0; i < 4; i++) sqlite3_bind_double(s, 12 + i, found[i]);
  sqlite3_bind_double(s, 17, x->needed);
  sqlite3_bind_int(s, 20, f->tasks);
  if (!x->tested) return;
  sqlite3_bind_double(s, 16, x->holm);
  if (l->x.by->points) sqlite3_bind_double(s, 21, l->margin);
  sqlite3_bind_double(s, 22, x->margin); /* NaN becomes null */
  sqlite3_bind_double(s, 23, x->margin_holm);
  sqlite3_bind_double(s, 24, detects(l, x));
}

static int put_line(sqlite3 *db, sqlite3_stmt *s, const lines *l,
                    const line *x) {
  char said[VERDICT];
  static const char *const checked[] = {NULL, "yes", "no", "refused"};
  const char *text[] = {l->x.v.label[l->method], l->x.v.label[x->other],
                        l->x.at, l->x.by->name};
  verdict(l, x, said);
  sqlite3_clear_bindings(s);
  for (int i = 0; i < 4; i++)
    sqlite3_bind_text(s, i + 1, text[i], -1, SQLITE_STATIC);
  bind_numbers(s, l, x);
  sqlite3_bind_text(s, 18, said, -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(s, 25, checked[l->trust], -1, SQLITE_STATIC);
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
  kv_help_wrap(
      f, 0, 0,
      "A verdict needs p < .05, by sign flips or for the margin by a "
      "score test, after Holm's correction for all lines above. "
      "Brackets: 95 % of 10,000 bootstrap means; \u00b1: half of that.");
  if (l->trust == KV_TRUST_UNKNOWN && l->tests)
    kv_help_wrap(f, 0, 0,
                 "Not checked: whether this measure places random below "
                 "oracle-evict, since they did not both run at these bytes.");
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

/* The measure asked for. Otherwise right answers, if any were given at this
 * budget, or the first measure of traces. */
static int find_measure(sqlite3 *db, const kv_args *a, const kv_compared **by) {
  kv_grid g = {0};
  int rc = kv_results_answers(db, a->files.item[0]);
  *by = kv_compared_at(a->measure ? a->measure - 1 : 0);
  if (!rc && !a->measure)
    rc = kv_grid_ask(db,
                     "SELECT 1 FROM item_mean WHERE asked = ?1 AND measure ="
                     " 'exact' LIMIT 1",
                     1, &a->at, &g);
  if (g.rows) *by = kv_compared_named("exact_match");
  kv_grid_free(&g);
  return rc;
}

static int compare(sqlite3 *db, const kv_args *a, lines *l) {
  bool any = false;
  const kv_compared *by;
  int rc = find_measure(db, a, &by);
  if (!rc && a->margin && !by->points)
    rc = kv_tell(KV_EXIT_USAGE,
                 "--margin is in points of exact_match or needle, not of %s",
                 by->name);
  l->margin = a->margin ? a->margin / 100.0 : KV_MARGIN;
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
  for (int i = 0; i < l.n; i++) free(l.line[i].pairs.c);
  free(l.line);
  kv_compare_rows_free(&l.x);
  sqlite3_close(db);
  return rc;
}
