/* SPDX-License-Identifier: Apache-2.0
 *
 * Fidelity against bytes. The first plot is the mean over traces of what was
 * asked alike, drawn only where every trace has an answer (a mean over those
 * that happen to have one would flatter); then one plot a trace.
 */
#include "analysis/page.h"
#include "analysis/say.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct asked {
  int variant;
  const char *basis, *target;
  int n, confirmed;
  double x, y;
} asked;

static const char *column(bool read) { return read ? "share_read" : "kr"; }

static bool has(const kv_grid *g, int r, bool read) {
  return isfinite(kv_grid_number(g, r, column(read))) &&
         isfinite(kv_grid_number(g, r, "output_error"));
}

static void tip(const kv_page *p, int variant, const char *where,
                const char *target, bool read, kv_mark *m) {
  snprintf(m->tip, sizeof m->tip,
           "%.*s%s%.*s, %.*s: %.3g%% of dense bytes %s, error %.3g, %s",
           kv_text_cut(p->variants.label[variant], 60),
           p->variants.label[variant], *target ? " at " : "",
           kv_text_cut(target, 20), target, kv_text_cut(where, 50), where,
           100 * m->x, read ? "read" : "stored", m->y,
           m->solid ? "confirmed" : "one run");
}

static asked *group(asked *list, int *n, const kv_page *p, int r) {
  const char *basis = kv_grid_text(&p->cell, r, "basis");
  const char *target = kv_grid_text(&p->cell, r, "asked");
  for (int i = 0; i < *n; i++)
    if (list[i].variant == p->variants.of[r] && !strcmp(list[i].basis, basis) &&
        !strcmp(list[i].target, target))
      return list + i;
  list[*n] = (asked){p->variants.of[r], basis, target, 0, 0, 0, 0};
  return list + (*n)++;
}

/* Means over all traces into mark; returns how many. */
static int average(const kv_page *p, bool read, kv_mark *mark) {
  const kv_grid *g = &p->cell;
  asked *list = calloc((size_t)g->rows + 1, sizeof *list);
  int n = 0, out = 0;
  if (!list) kv_tell_short();
  for (int r = 0; list && r < g->rows; r++) {
    asked *a;
    if (!has(g, r, read)) continue;
    a = group(list, &n, p, r);
    a->n++;
    a->confirmed += kv_grid_number(g, r, "confirmed") > 0;
    a->x += kv_grid_number(g, r, column(read));
    a->y += kv_grid_number(g, r, "output_error");
  }
  for (int i = 0; i < n; i++) {
    const asked *a = list + i;
    kv_mark *m = mark + out;
    if (a->n != p->places) continue;
    *m = (kv_mark){a->x / a->n, a->y / a->n, a->variant, a->confirmed == a->n,
                   ""};
    tip(p, a->variant, p->places > 1 ? "mean of all traces" : p->place_name[0],
        a->target, read, m);
    out++;
  }
  free(list);
  return out;
}

static int of_place(const kv_page *p, int place, bool read, kv_mark *mark) {
  const kv_grid *g = &p->cell;
  int n = 0;
  for (int r = 0; r < g->rows; r++) {
    kv_mark *m = mark + n;
    if (p->place[r] != place || !has(g, r, read)) continue;
    *m = (kv_mark){kv_grid_number(g, r, column(read)),
                   kv_grid_number(g, r, "output_error"), p->variants.of[r],
                   kv_grid_number(g, r, "confirmed") > 0, ""};
    tip(p, m->variant, p->place_name[place], kv_grid_text(g, r, "asked"), read,
        m);
    n++;
  }
  return n;
}

static void draw_all(const kv_page *p, kv_plot *plot, bool read) {
  char text[160];
  plot->n = average(p, read, plot->mark);
  if (!plot->n) return;
  plot->width = 1080;
  plot->height = 500;
  plot->labels = true;
  plot->title = "Output error against bytes";
  snprintf(text, sizeof text,
           "Mean of %d traces; lower and further left is better. The table "
           "at the end of the page holds the numbers.",
           p->places);
  plot->text = text;
  fputs("<div class=\"wide\">", p->f);
  kv_plot_write(plot, p->f);
  fputs("</div>\n", p->f);
}

static void draw_places(const kv_page *p, kv_plot *plot, bool read) {
  plot->width = 340;
  plot->height = 270;
  plot->labels = false;
  plot->text = "One trace; the table at the end of the page holds the numbers.";
  fputs("<div class=\"small\">\n", p->f);
  for (int i = 0; i < p->places; i++) {
    plot->n = of_place(p, i, read, plot->mark);
    plot->title = p->place_name[i];
    fputs("<div><h3>", p->f);
    kv_text_html(p->place_name[i], p->f);
    fputs("</h3>\n", p->f);
    kv_plot_write(plot, p->f);
    fputs("</div>\n", p->f);
  }
  fputs("</div>\n", p->f);
}

static void caption(const kv_page *p, bool read) {
  static const char *const text[2] = {
      "Bytes stored, everything charged (codes, scales, positions, columns, "
      "side memory, slack), as a share of the dense cache at the same step, "
      "averaged over decode.",
      "Bytes that attention reads per decode step, as a share of what dense "
      "reads. Methods that retrieve store everything and read little: here "
      "is where they show."};
  char all[700];
  kv_grid g;
  const char *sql =
      read ? "SELECT trace, prompt_len, observe, method, params, basis, asked,"
             " budget, share_read, bytes_read, output_error, confirmed, key "
             "FROM cell"
             " WHERE output_error IS NOT NULL"
           : "SELECT trace, prompt_len, observe, method, params, basis, asked,"
             " budget, kr, bytes_mean, bytes_end, share_end, output_error, "
             "confirmed,"
             " key FROM cell WHERE output_error IS NOT NULL";
  int rc = kv_grid_ask(p->db, sql, 0, NULL, &g);
  snprintf(all, sizeof all,
           "%s Error: |o\xcc\x82 \xe2\x88\x92 o| / |o|, mean over layers, "
           "heads and decode steps; both axes logarithmic, points of error 0 "
           "(dense) are not drawn. Filled points are confirmed, hollow ones "
           "are one run.%s",
           text[read],
           p->places > 1 ? " The large plot has the mean over all traces, "
                           "where each of them has an answer."
                         : "");
  kv_page_caption(p, all, read ? "bytes_read" : "bytes_stored", rc ? NULL : &g);
  if (!rc) kv_grid_free(&g);
}

/* One pair of axes for all plots: places can be compared by eye. */
static void fit(const kv_page *p, kv_plot *plot, bool read) {
  kv_mark *m = plot->mark;
  int n = 0;
  for (int i = 0; i < p->places; i++) n += of_place(p, i, read, m + n);
  plot->x = (kv_axis){read ? "bytes read per step, share of dense"
                           : "bytes stored, share of dense, mean over decode",
                      0, 0, true, true};
  plot->y = (kv_axis){"output error", 0, 0, true, false};
  kv_axis_fit(&plot->x, n, m, false);
  kv_axis_fit(&plot->y, n, m, true);
}

void kv_page_pareto(const kv_page *p, bool read) {
  kv_plot plot = {.variants = &p->variants};
  int n = 0;
  plot.mark = calloc((size_t)p->cell.rows + 1, sizeof *plot.mark);
  if (!plot.mark) {
    kv_tell_short();
    return;
  }
  for (int r = 0; r < p->cell.rows; r++) n += has(&p->cell, r, read);
  if (!n) {
    fputs(read ? "<p class=\"soft\">Shares need the dense cache of the same "
                 "trace: run <code>-m dense</code> into this database.</p>\n"
               : "<p class=\"soft\">No cell has both bytes and an error "
                 "yet.</p>\n",
          p->f);
  } else {
    fputs("<figure>\n", p->f);
    if (!read || p->places == 1) kv_page_legend(p);
    fit(p, &plot, read);
    draw_all(p, &plot, read);
    if (p->places > 1) draw_places(p, &plot, read);
    caption(p, read);
    fputs("</figure>\n", p->f);
  }
  free(plot.mark);
}
