/* SPDX-License-Identifier: Apache-2.0
 *
 * Fidelity against bytes, a figure a measure: what ranks right answers first
 * (needle, then LSE error and KL), output error after it with the sentence that
 * it does not. The large plot is the mean over traces of what was asked alike,
 * drawn only where every trace that has the measure has an answer (a mean over
 * those that happen to have one would flatter); below it the same as a sorted
 * table, then perhaps one plot a trace.
 */
#include "analysis/database/say.h"
#include "analysis/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct figure {
  const char *id;            /* of the row of kv_figures_fidelity */
  const char *name;          /* of its data */
  const char *column, *axis; /* the measure, and what it is called */
  const char *words;
  bool log, more; /* more: more is better, and nothing is beyond the axis */
  bool read;      /* against bytes read */
  bool places;    /* a plot a trace, too */
  kv_ranking rank;
} figure;

#define NEEDLE                                                                 \
  "Needle: attention mass left on the tokens that hold the answers, as a "     \
  "share of what dense attention puts there; 1 is dense, and a method that "   \
  "dropped other tokens may give their mass to it."
#define ERROR                                                                  \
  "Error: |o\u0302 \u2212 o| / |o|, mean over layers, heads and decode "       \
  "steps; "                                                                    \
  "both axes logarithmic, points of error 0 (dense) are not drawn."

static const figure figures[] = {
    {"needle_stored", "needle_stored", "needle_share", "needle, dense is 1",
     NEEDLE, false, true, false, true, KV_BY_NEEDLE},
    {"needle_read", "needle_read", "needle_share", "needle, dense is 1", NEEDLE,
     false, true, true, false, KV_NO_RANKING},
    {"lse", "lse", "lse_error", "LSE error, size, nats",
     "LSE error: by how much the log-sum-exp of what is stored is off, its "
     "mean "
     "over layers, heads and decode steps, either way.",
     false, false, false, false, KV_BY_LSE},
    {"lse", "kl", "kl", "KL divergence, nats",
     "KL divergence of the attention over what is viewed from dense attention, "
     "mean over layers, heads and decode steps.",
     false, false, false, false, KV_BY_KL},
    {"stored", "bytes_stored", "output_error", "output error", ERROR, true,
     false, false, true, KV_BY_ERROR},
    {"read", "bytes_read", "output_error", "output error", ERROR, true, false,
     true, true, KV_NO_RANKING}};

/* --- marks ---------------------------------------------------------------- */

static double across(const kv_grid *g, int r, const figure *d) {
  return kv_grid_number(g, r, d->read ? "share_read" : "kr");
}

/* Of what may be off either way the size counts. */
static double up(const kv_grid *g, int r, const figure *d) {
  double y = kv_grid_number(g, r, d->column);
  return d->rank == KV_BY_LSE ? fabs(y) : y;
}

static bool has(const kv_grid *g, int r, const figure *d) {
  return isfinite(across(g, r, d)) && isfinite(up(g, r, d));
}

static void tip(const kv_page *p, const char *where, const char *target,
                const figure *d, kv_mark *m) {
  const char *label = p->variants.label[m->variant];
  snprintf(m->tip, sizeof m->tip,
           "%.*s%s%.*s, %.*s: %.3g%% of dense bytes %s, %.*s %.3g, %s",
           kv_text_cut(label, 60), label, *target ? " at " : "",
           kv_text_cut(target, 20), target, kv_text_cut(where, 50), where,
           100 * m->x, d->read ? "read" : "stored", (int)strcspn(d->axis, ","),
           d->axis, m->y, m->solid ? "confirmed" : "one run");
}

static int of_place(const kv_page *p, int place, const figure *d,
                    kv_mark *mark) {
  const kv_grid *g = &p->cell;
  int n = 0;
  for (int r = 0; r < g->rows; r++) {
    kv_mark *m = mark + n;
    if (p->place[r] != place || !has(g, r, d)) continue;
    *m = (kv_mark){across(g, r, d), up(g, r, d), p->variants.of[r],
                   kv_grid_number(g, r, "confirmed") > 0, ""};
    tip(p, p->place_name[place], kv_grid_text(g, r, "asked"), d, m);
    n++;
  }
  return n;
}

/* Traces of a request are one, of their mean; `all` have the measure. */
#define MEANS                                                                  \
  "WITH unit AS (SELECT label, basis, asked, request, prompt_len, observe,"    \
  " avg(%s) AS x, avg(%s) AS y, min(confirmed) AS confirmed, min(key) AS key," \
  " min(cell.rowid) AS nth FROM cell JOIN line USING (key, basis, asked)"      \
  " WHERE %s IS NOT NULL AND %s IS NOT NULL GROUP BY label, basis, asked,"     \
  " request, prompt_len, observe) SELECT asked, count(*) AS n, avg(x) AS x,"   \
  " avg(y) AS y, min(confirmed) AS confirmed, min(key) AS key, (SELECT"        \
  " count(*) FROM (SELECT DISTINCT request, prompt_len, observe FROM unit))"   \
  " AS 'all' FROM unit GROUP BY label, basis, asked ORDER BY min(nth)"

static int ask_means(const kv_page *p, const figure *d, kv_grid *g) {
  const char *x = d->read ? "share_read" : "kr", *y = d->column;
  char size[64];
  snprintf(size, sizeof size, d->rank == KV_BY_LSE ? "abs(%s)" : "%s", y);
  char *sql = sqlite3_mprintf(MEANS, x, size, x, y);
  int rc = sql ? kv_grid_ask(p->db, sql, 0, NULL, g)
               : kv_tell(KV_EXIT_RESOURCE, "not enough memory for the page");
  sqlite3_free(sql);
  return rc;
}

/* Means over all of so many traces into mark; returns how many. */
static int average(const kv_page *p, const figure *d, const kv_grid *g, int all,
                   kv_mark *mark) {
  int out = 0;
  for (int r = 0; r < g->rows; r++) {
    kv_mark *m = mark + out;
    if (kv_grid_number(g, r, "n") < all) continue;
    *m = (kv_mark){kv_grid_number(g, r, "x"), kv_grid_number(g, r, "y"),
                   kv_page_variant(p, kv_grid_text(g, r, "key")),
                   kv_grid_number(g, r, "confirmed") > 0, ""};
    tip(p, all > 1 ? "mean of all traces" : "one trace",
        kv_grid_text(g, r, "asked"), d, m);
    out++;
  }
  return out;
}

/* --- plots ---------------------------------------------------------------- */

/* For wide pages, and for narrow ones, where it would not fit. */
static void draw_twice(const kv_page *p, kv_plot *plot) {
  fputs("<div class=\"broad\">", p->f);
  plot->width = 1080;
  plot->height = 500;
  kv_plot_write(plot, p->f);
  fputs("</div>\n<div class=\"narrow\">", p->f);
  plot->width = 350;
  plot->height = 400;
  kv_plot_write(plot, p->f);
  fputs("</div>\n", p->f);
}

/* Names and numbers of what the axis has no room for. */
static void tell_beyond(const kv_page *p, const kv_plot *plot) {
  int n = 0;
  for (int i = 0; plot->cut && i < plot->n; i++) {
    const kv_mark *m = plot->mark + i;
    if (m->y <= plot->y.hi) continue;
    fputs(n++ ? ", "
              : "<p class=\"soft\">Beyond the axis, in the strip at its "
                "end: ",
          p->f);
    kv_text_html(p->variants.label[m->variant], p->f);
    fprintf(p->f, " (%.3g)", m->y);
  }
  if (n) fputs(".</p>\n", p->f);
}

static void draw_all(const kv_page *p, kv_plot *plot, const figure *d,
                     const kv_grid *means, int all) {
  char text[160], title[96];
  plot->n = average(p, d, means, all, plot->mark);
  if (!plot->n) return;
  plot->labels = true;
  snprintf(title, sizeof title, "%.*s against bytes %s",
           (int)strcspn(d->axis, ","), d->axis, d->read ? "read" : "stored");
  snprintf(text, sizeof text,
           "Mean of %d traces; %s and further left is better. A table on this "
           "page holds the numbers.",
           all, d->more ? "higher" : "lower");
  plot->title = title;
  plot->text = text;
  draw_twice(p, plot);
  tell_beyond(p, plot);
}

static void draw_places(const kv_page *p, kv_plot *plot, const figure *d) {
  plot->width = 340;
  plot->height = 270;
  plot->labels = false;
  plot->text = "One trace; the table at the end of the page holds the numbers.";
  fputs("<div class=\"small\">\n", p->f);
  for (int i = 0; i < p->places; i++) {
    plot->n = of_place(p, i, d, plot->mark);
    plot->title = p->place_name[i];
    if (!plot->n) continue;
    fputs("<div><h3>", p->f);
    kv_text_html(p->place_name[i], p->f);
    fputs("</h3>\n", p->f);
    kv_plot_write(plot, p->f);
    fputs("</div>\n", p->f);
  }
  fputs("</div>\n", p->f);
}

/* One pair of axes for all plots: places, and two databases, can be compared by
 * eye. */
static void fit(const kv_page *p, kv_plot *plot, const figure *d) {
  const kv_page *both[] = {p, p->beside};
  kv_mark *m = plot->mark;
  int n = 0;
  for (int k = 0; k < 2 && both[k]; k++)
    for (int i = 0; i < both[k]->places; i++)
      n += of_place(both[k], i, d, m + n);
  plot->x = (kv_axis){d->read ? "bytes read per step, share of dense"
                              : "bytes stored, share of dense, decode's mean",
                      0, 0, true, true};
  plot->y = (kv_axis){d->axis, 0, 0, d->log, false};
  plot->more = d->more;
  kv_axis_fit(&plot->x, n, m, false);
  plot->cut = !d->more && kv_axis_fit_most(&plot->y, n, m);
  if (d->more) kv_axis_fit(&plot->y, n, m, true);
}

/* --- sections ------------------------------------------------------------- */

static int caption(const kv_page *p, const figure *d, int all) {
  static const char *const text[2] = {
      "Bytes stored, everything charged (codes, scales, positions, columns, "
      "side memory, slack), as a share of the dense cache at the same step, "
      "averaged over decode.",
      "Bytes that attention reads per decode step, as a share of what dense "
      "reads. Methods that retrieve store everything and read little: here "
      "is where they show."};
  char words[900];
  char *sql = sqlite3_mprintf(
      "SELECT trace, prompt_len, observe, method, params, basis, asked, budget,"
      " %s, %s, %s_se, confirmed, key FROM cell WHERE %s IS NOT NULL",
      d->read ? "share_read, bytes_read"
              : "kr, bytes_mean, bytes_end, share_end",
      d->column, d->column, d->column);
  kv_grid g;
  int rc = sql ? kv_grid_ask(p->db, sql, 0, NULL, &g)
               : kv_tell(KV_EXIT_RESOURCE, "not enough memory for the page");
  sqlite3_free(sql);
  if (rc) return rc;
  snprintf(words, sizeof words,
           "%s %s Names stand at what no other method beats in both; filled "
           "points are confirmed, hollow ones are one run.%s",
           text[d->read], d->words,
           all > 1 ? " The large plot has the mean over all traces that have "
                     "the measure, where each of them has an answer."
                   : "");
  kv_page_caption(p, words, d->name, &g);
  kv_grid_free(&g);
  return rc;
}

static void head(const kv_page *p, const figure *d) {
  if (!strcmp(d->column, "output_error") && !d->read) kv_page_rank(p);
}

static bool some(const kv_page *p, const figure *d) {
  for (int r = 0; r < p->cell.rows; r++)
    if (has(&p->cell, r, d)) return true;
  return false;
}

/* One plot a trace, or the word that they would be too many marks. */
static void draw_each(const kv_page *p, kv_plot *plot, const figure *d) {
  int n = 0;
  for (int r = 0; r < p->cell.rows; r++) n += has(&p->cell, r, d);
  if (n <= KV_PAGE_MOST)
    draw_places(p, plot, d);
  else
    fprintf(p->f,
            "<p class=\"soft\">%d marks are too many to draw a plot a trace, "
            "too.</p>\n",
            n);
}

static int draw(const kv_page *p, kv_plot *plot, const figure *d) {
  kv_grid means;
  int rc = ask_means(p, d, &means);
  if (rc) return rc;
  int all = (int)kv_grid_number(&means, 0, "all");
  head(p, d);
  fputs("<figure>\n", p->f);
  if (!d->places) fputs("<details><summary>Marks</summary>\n", p->f);
  kv_page_legend(p);
  if (!d->places) fputs("</details>\n", p->f);
  fit(p, plot, d);
  draw_all(p, plot, d, &means, all);
  kv_grid_free(&means);
  rc = kv_page_ranking(p, d->rank);
  if (!rc && d->rank == (some(p, figures) ? KV_BY_NEEDLE : KV_BY_LSE))
    rc = kv_page_reasons(p);
  if (!rc && all > 1 && d->places) draw_each(p, plot, d);
  if (!rc) rc = caption(p, d, all);
  fputs("</figure>\n", p->f);
  return rc;
}

/* Needles of traces without answers have no section. */
static int section(const kv_page *p, const figure *d) {
  kv_plot plot = {.variants = &p->variants};
  bool any = some(p, d);
  int rc = KV_EXIT_OK;
  if (!any && strcmp(d->column, "output_error")) return rc;
  int rows = p->cell.rows + (p->beside ? p->beside->cell.rows : 0);
  plot.mark = calloc((size_t)rows + 1, sizeof *plot.mark);
  if (!plot.mark) {
    kv_tell_short();
  } else if (any) {
    rc = draw(p, &plot, d);
  } else {
    head(p, d);
    fputs(d->read ? "<p class=\"soft\">Shares need the dense cache of the same "
                    "trace: run <code>-m dense</code> into this database.</p>\n"
                  : "<p class=\"soft\">No cell has both bytes and an error "
                    "yet.</p>\n",
          p->f);
  }
  free(plot.mark);
  return rc;
}

static int write_all(const kv_page *p, const kv_figure *f) {
  int rc = KV_EXIT_OK;
  for (size_t i = 0; i < sizeof figures / sizeof *figures && !rc; i++)
    if (!strcmp(figures[i].id, f->id)) rc = section(p, figures + i);
  return rc;
}

const kv_figure kv_figures_fidelity[] = {
    {"needle_stored", "Needles against bytes stored", .write = write_all},
    {"needle_read", "Needles against bytes read", .write = write_all},
    {"lse", "LSE error and KL against bytes stored", .write = write_all},
    {"stored", "Output error against bytes stored", .write = write_all},
    {"read", "Output error against bytes read", .write = write_all},
    {.id = NULL}};
