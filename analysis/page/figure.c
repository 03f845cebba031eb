/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/figure.h"
#include "analysis/database/say.h"
#include "analysis/page/strip.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANELS = 48 }; /* most that are drawn; the data file has all */

static bool has(const kv_grid *g, const char *column) {
  return kv_grid_column(g, column) >= 0;
}

static void head(const char *text, FILE *f) {
  fputs("<h3>", f);
  kv_text_html(text, f);
  fputs("</h3>\n", f);
}

/* --- lines ---------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The series of all panels, sorted by name; the names are the grid's. */
static bool find_series(const kv_grid *g, const char *column, kv_variants *v) {
  *v = (kv_variants){.rows = g->rows};
  v->label = calloc((size_t)g->rows + 1, sizeof *v->label);
  v->of = calloc((size_t)g->rows + 1, sizeof *v->of);
  if (!v->label || !v->of) return false;
  int at = kv_grid_column(g, column), n = 0;
  for (int r = 0; r < g->rows; r++)
    if (g->value[r * g->columns + at].text)
      v->label[n++] = g->value[r * g->columns + at].text;
  qsort(v->label, (size_t)n, sizeof *v->label, by_text);
  for (int i = 0; i < n; i++)
    if (!v->n || strcmp(v->label[v->n - 1], v->label[i]))
      v->label[v->n++] = v->label[i];
  for (int r = 0; r < g->rows; r++)
    v->of[r] = kv_variants_same(v, kv_grid_text(g, r, column));
  return true;
}

/* If all lines are the page's, they look as on the page. */
static void dress(const kv_page *p, kv_variants *v) {
  int known = 0;
  v->look = calloc((size_t)v->n + 1, sizeof *v->look);
  for (int i = 0; v->look && i < v->n; i++) {
    int line = kv_variants_same(&p->variants, v->label[i]);
    if (line < 0) break;
    v->look[known++] = kv_look_line(&p->variants, line);
  }
  if (known == v->n) return;
  free(v->look);
  v->look = NULL;
}

static const char *panel_of(const kv_panels *s) {
  return s->panel ? s->panel : "panel";
}

static const char *series_of(const kv_panels *s) {
  return s->series ? s->series : "series";
}

static void say(const kv_axis *a, double v, size_t room, char *out) {
  snprintf(out, room, a->percent ? "%s: %.3g%%" : "%s: %.6g", a->title,
           a->percent ? 100 * v : v);
}

/* For a large figure, adds to the tip on how many traces the mark was measured,
 * and whether it is confirmed. */
static void add_basis(const kv_grid *g, int r, const char *panel, kv_mark *m) {
  const char *trace = kv_grid_text(g, r, panel);
  int traces = kv_grid_int(g, r, "traces", 0, INT_MAX, 0);
  char mean[40] = "one trace";
  size_t n = strlen(m->tip);
  if (traces > 1) snprintf(mean, sizeof mean, "mean over %d traces", traces);
  if (!*trace) trace = mean;
  snprintf(m->tip + n, sizeof m->tip - n, "; %.*s; %s", kv_text_cut(trace, 50),
           trace, m->solid ? "confirmed" : "one run");
}

/* Collects drawable marks of rows first..end-1; v NULL: only positions. */
static int gather(const kv_grid *g, const kv_panels *s, const kv_variants *v,
                  int first, int end, kv_mark *mark) {
  int n = 0;
  for (int r = first; r < end; r++) {
    const char *series = kv_grid_text(g, r, series_of(s));
    const char *asked = kv_grid_text(g, r, "asked");
    char x[96], y[96];
    kv_mark *m = mark + n;
    *m = (kv_mark){kv_grid_number(g, r, s->x), kv_grid_number(g, r, s->y),
                   v ? v->of[r] : 0, kv_grid_number(g, r, "confirmed") > 0, ""};
    if (m->variant < 0 || !isfinite(m->x) || !isfinite(m->y)) continue;
    say(&s->across, m->x, sizeof x, x);
    say(&s->up, m->y, sizeof y, y);
    snprintf(m->tip, sizeof m->tip, "%.*s%s%.*s; %s; %s",
             kv_text_cut(series, 60), series, *asked ? " at " : "",
             kv_text_cut(asked, 20), asked, y, x);
    if (s->large) add_basis(g, r, panel_of(s), m);
    n++;
  }
  return n;
}

static void fit(kv_plot *plot, const kv_panels *s, int n) {
  plot->x = s->across;
  plot->y = s->up;
  kv_axis_fit(&plot->x, n, plot->mark, false);
  if (s->large && !s->more)
    plot->cut = kv_axis_fit_most(&plot->y, n, plot->mark);
  else
    kv_axis_fit(&plot->y, n, plot->mark, true);
}

/* One plot for wide pages and one for narrow ones; then names and numbers of
 * the marks beyond the axis. */
static void draw_large(const kv_page *p, const kv_panels *s, kv_plot *plot) {
  static const double size[2][2] = {{1080, 500}, {350, 400}};
  int n = 0;
  plot->labels = true;
  plot->more = s->more;
  plot->title = s->title;
  for (int i = 0; i < 2; i++) {
    fprintf(p->f, "<div class=\"%s\">", i ? "narrow" : "broad");
    plot->width = size[i][0];
    plot->height = size[i][1];
    kv_plot_write(plot, p->f);
    fputs("</div>\n", p->f);
  }
  plot->labels = false;
  for (int i = 0; plot->cut && i < plot->n; i++) {
    if (plot->mark[i].y <= plot->y.hi) continue;
    fputs(n++ ? ", "
              : "<p class=\"soft\">Beyond the axis, in the strip at its "
                "end: ",
          p->f);
    kv_text_html(plot->variants->label[plot->mark[i].variant], p->f);
    fprintf(p->f, " (%.3g)", plot->mark[i].y);
  }
  if (n) fputs(".</p>\n", p->f);
}

static void draw_panels(const kv_page *p, const kv_grid *g, int r,
                        const kv_panels *s, kv_plot *plot) {
  plot->width = s->large ? 340 : 520;
  plot->height = s->large ? 270 : 330;
  if (s->large && g->rows - r > KV_PAGE_MOST) {
    fprintf(p->f,
            "<p class=\"soft\">%d marks are too many for a plot of each "
            "trace.</p>\n",
            g->rows - r);
    return;
  }
  fputs(s->large ? "<div class=\"small\">\n" : "<div class=\"small two\">\n",
        p->f);
  for (int n = 0, end; r < g->rows && n < PANELS; r = end, n++) {
    char title[320];
    const char *name = kv_grid_text(g, r, panel_of(s));
    end = kv_grid_end(g, r, panel_of(s));
    plot->n = gather(g, s, plot->variants, r, end, plot->mark);
    if (s->apart) fit(plot, s, plot->n);
    if (!plot->n) continue;
    snprintf(title, sizeof title, "%s: %.*s", s->title, kv_text_cut(name, 200),
             name);
    plot->title = title;
    fputs("<div>", p->f);
    head(name, p->f);
    kv_plot_write(plot, p->f);
    fputs("</div>\n", p->f);
  }
  fputs("</div>\n", p->f);
}

/* Draws the names of the series, then the plots. other: the rows of the other
 * page, to have the same axes; may be empty. */
static int draw_lines(const kv_page *p, const kv_figure *f, const kv_grid *g,
                      const kv_grid *other) {
  const kv_panels *s = &f->panels;
  kv_variants v;
  int rc = KV_EXIT_OK, first = 0, n;
  kv_plot plot = {.text = "The data are in the file below.",
                  .bare = s->bare,
                  .variants = &v};
  plot.mark = calloc((size_t)(g->rows + other->rows) + 1, sizeof *plot.mark);
  if (!find_series(g, series_of(s), &v) || !plot.mark) {
    kv_tell_short();
  } else {
    dress(p, &v);
    kv_plot_legend(s->large ? &p->variants : &v, p->f);
    n = gather(g, s, &v, 0, g->rows, plot.mark);
    fit(&plot, s, n + gather(other, s, NULL, 0, other->rows, plot.mark + n));
    if (s->large && !*kv_grid_text(g, 0, panel_of(s))) {
      first = kv_grid_end(g, 0, panel_of(s));
      plot.n = gather(g, s, &v, 0, first, plot.mark);
      draw_large(p, s, &plot);
    }
    if (s->below) rc = s->below(p, f);
    if (first < g->rows) draw_panels(p, g, first, s, &plot);
  }
  free(plot.mark);
  free(v.label);
  free(v.of);
  free(v.look);
  return rc;
}

/* --- points and bars ------------------------------------------------------ */

/* Adds rows of g with one `name` as a row of the chart. Columns: name, x,
 * confirmed. Optional: note, at the right; low and high, a line; series and
 * nth, its number, which sets the look (else the line of `method` does); bar: a
 * bar that continues the row's last bar; tip; beyond: x is the axis's end. */
static int add_row(const kv_grid *g, int r, kv_strip *s) {
  int end = kv_grid_end(g, r, "name");
  kv_strip_row *row = &s->row[s->rows];
  int line = s->lines && has(g, "method")
                 ? kv_variants_same(s->lines, kv_grid_text(g, r, "method"))
                 : -1;
  double at = 0;
  snprintf(row->name, sizeof row->name, "%s", kv_grid_text(g, r, "name"));
  if (has(g, "note"))
    snprintf(row->note, sizeof row->note, "%s", kv_grid_text(g, r, "note"));
  if (line >= 0) row->line = kv_look_line(s->lines, line).line;
  for (; r < end; r++) {
    kv_strip_item *item = &s->item[s->n++];
    double x = kv_grid_number(g, r, "x");
    if (has(g, "low") && isfinite(kv_grid_number(g, r, "low"))) {
      *item = (kv_strip_item){.row = s->rows,
                              .kind = KV_STRIP_LINE,
                              .x0 = kv_grid_number(g, r, "low"),
                              .x1 = kv_grid_number(g, r, "high")};
      item = &s->item[s->n++];
    }
    *item = (kv_strip_item){.row = s->rows,
                            .x0 = x,
                            .solid = kv_grid_number(g, r, "confirmed") > 0};
    item->look = has(g, "nth")
                     ? kv_look_number((int)kv_grid_number(g, r, "nth"))
                     : kv_look_line(s->lines, line < 0 ? 0 : line);
    if (has(g, "bar") && kv_grid_number(g, r, "bar") > 0) {
      item->kind = KV_STRIP_BAR;
      item->x0 = at;
      item->x1 = at += x;
    }
    item->beyond = has(g, "beyond") && kv_grid_number(g, r, "beyond") > 0;
    if (has(g, "tip"))
      snprintf(item->tip, sizeof item->tip, "%s", kv_grid_text(g, r, "tip"));
  }
  s->rows++;
  return end;
}

/* The series, in the order of their numbers. */
static void legend(const kv_grid *g, FILE *f) {
  const char *name[64] = {NULL};
  bool bar[64] = {false};
  for (int r = 0; r < g->rows; r++) {
    int i = kv_grid_int(g, r, "nth", 0, 63, 0);
    name[i] = kv_grid_text(g, r, "series");
    bar[i] = has(g, "bar") && kv_grid_number(g, r, "bar") > 0;
  }
  fputs("<ul class=\"legend\">\n", f);
  for (int i = 0; i < 64; i++) {
    if (!name[i]) continue;
    fputs("<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">", f);
    if (bar[i])
      fprintf(f, "<path class=\"k%d b\" d=\"M1,1H33V13H1z\"/>", i % KV_COLOURS);
    else
      kv_plot_mark(kv_look_number(i), true, 17, 7, 5, "", f);
    fputs("</svg>", f);
    kv_text_html(name[i], f);
    fputs("</li>\n", f);
  }
  fputs("</ul>\n", f);
}

static void draw_rows(const kv_page *p, const kv_figure *f, const kv_grid *g) {
  if (has(g, "series")) legend(g, p->f);
  for (int r = 0, end; r < g->rows; r = end) {
    end = has(g, "heading") ? kv_grid_end(g, r, "heading") : g->rows;
    if (has(g, "heading")) head(kv_grid_text(g, r, "heading"), p->f);
    kv_strip_rows(&(kv_strip){.title = f->panels.title,
                              .x = f->panels.across,
                              .lines = &p->variants},
                  g, r, end, 2, add_row, p->f);
  }
}

/* --- maps ----------------------------------------------------------------- */

/* Draws maps of rows r .. end - 1, one for each panel. Maps whose squares all
 * show the number `flat` become a sentence below. */
static void draw_group(const kv_page *p, const kv_figure *f, const kv_grid *g,
                       int r, int end) {
  int first = r, flat = 0, next;
  kv_map m = {0};
  for (; r < end; r = next) {
    next = kv_grid_end(g, r, "panel");
    if (has(g, "flat") && isfinite(kv_grid_number(g, r, "flat"))) continue;
    kv_map_free(&m);
    if (!kv_map_find(g, &f->map, f->map.shared ? 0 : r,
                     f->map.shared ? g->rows : next, r, next, &m))
      return;
    kv_map_draw(&m, kv_grid_text(g, r, "panel"), p->f);
  }
  if (f->group) fputs("</div>\n", p->f);
  if (f->map.numbered) {
    fputs("<p class=\"soft\">", p->f);
    for (int i = 0; i < m.rows; i++) {
      fprintf(p->f, "%s%d ", i ? ", " : "", i + 1);
      kv_text_html(kv_grid_text(g, m.row[i], f->map.row), p->f);
    }
    fputs("</p>\n", p->f);
  }
  kv_map_free(&m);
  if (!has(g, "flat")) return;
  fputs("<p class=\"soft\">The same in all layers and heads, in percent:",
        p->f);
  for (r = first; r < end; r = kv_grid_end(g, r, "panel")) {
    if (!isfinite(kv_grid_number(g, r, "flat"))) continue;
    fputs(flat++ ? ", " : " ", p->f);
    kv_text_html(kv_grid_text(g, r, "panel"), p->f);
    fprintf(p->f, " %.0f", kv_grid_number(g, r, "flat"));
  }
  fputs(flat ? ".</p>\n" : " none.</p>\n", p->f);
}

static void draw_maps(const kv_page *p, const kv_figure *f, const kv_grid *g) {
  for (int r = 0, end; r < g->rows; r = end) {
    end = has(g, "heading") ? kv_grid_end(g, r, "heading") : g->rows;
    if (has(g, "heading")) head(kv_grid_text(g, r, "heading"), p->f);
    if (f->group) fprintf(p->f, "<div class=\"%s\">\n", f->group);
    draw_group(p, f, g, r, end);
  }
}

static int draw(const kv_page *p, const kv_figure *f, const kv_grid *g) {
  kv_grid other = {0};
  int rc = KV_EXIT_OK;
  if (f->draw) {
    if (f->group) fprintf(p->f, "<div class=\"%s\">\n", f->group);
    f->draw(p, g);
    if (f->group) fputs("</div>\n", p->f);
  } else if (f->mark == KV_POINTS || f->mark == KV_BARS) {
    draw_rows(p, f, g);
  } else if (f->mark == KV_MAP) {
    draw_maps(p, f, g);
  } else if (f->mark == KV_TABLE) {
    if (!f->few || g->rows <= KV_PAGE_MOST)
      kv_page_table(p, g, f->title, f->columns);
  } else {
    if (p->beside && f->panels.large)
      rc = kv_grid_ask(p->beside->db, f->ask, 0, NULL, &other);
    if (!rc) rc = draw_lines(p, f, g, &other);
    kv_grid_free(&other);
  }
  return rc;
}

static int caption(const kv_page *p, const kv_figure *f, const kv_grid *g) {
  kv_grid data = {0};
  int rc = f->data ? kv_grid_ask(p->db, f->data, 0, NULL, &data) : KV_EXIT_OK;
  const kv_grid *all = f->data ? &data : g;
  if (!rc && f->caption)
    (f->closed ? kv_page_answered : kv_page_caption)(
        p, f->caption, f->file ? f->file : f->id, f->unlinked ? NULL : all);
  kv_grid_free(&data);
  return rc;
}

int kv_figure_draw(const kv_page *p, const kv_figure *f) {
  kv_grid g;
  if (f->write) return f->write(p, f);
  int rc = kv_grid_ask(p->db, f->ask, 0, NULL, &g);
  if (rc) return rc;
  if (f->lead && g.rows) f->lead(p);
  if (g.rows) {
    fputs("<figure>\n", p->f);
    rc = draw(p, f, &g);
  } else if (f->none && p->cell.rows) {
    fprintf(p->f, "<p class=\"soft\">%s</p>\n", f->none);
  }
  if (!rc && g.rows) rc = caption(p, f, &g);
  if (!rc && f->below && g.rows) rc = f->below(p);
  if (g.rows) fputs("</figure>\n", p->f);
  kv_grid_free(&g);
  return rc;
}

/* --- sections ------------------------------------------------------------- */

enum { PAGES = 2 };

/* *text, to be freed: the figure on page p, with those of the same id after it;
 * NULL: no memory, which is printed. */
static int take(kv_page *p, const kv_figure *figure, char **text) {
  size_t size = 0;
  p->f = open_memstream(text, &size);
  if (!p->f) {
    kv_tell_short();
    return KV_EXIT_OK;
  }
  int rc = KV_EXIT_OK;
  const char *id = figure->id;
  for (; figure->id && !strcmp(figure->id, id) && !rc; figure++)
    rc = kv_figure_draw(p, figure);
  if (fclose(p->f)) kv_tell_short();
  p->f = NULL;
  return rc;
}

static bool some(const char *text) { return text && *text; }

static void put_beside(FILE *f, const kv_page *page, char *const *text) {
  fputs("<div class=\"beside\">\n", f);
  for (int i = 0; i < PAGES; i++) {
    fprintf(f, "<div><p class=\"of\">%c: ", "AB"[i]);
    kv_text_html(page[i].path, f);
    fputs("</p>\n", f);
    fputs(some(text[i]) ? text[i] : "<p class=\"soft\">No data.</p>\n", f);
    fputs("</div>\n", f);
  }
  fputs("</div>\n", f);
}

static void put(FILE *f, int pages, const kv_page *page, char *const *text,
                const kv_figure *figure, bool folds) {
  fputs(folds ? "<details class=\"fold\"><summary>" : "<section>\n", f);
  fprintf(f, "<h2 id=\"%s\">%s</h2>%s\n", figure->id, figure->title,
          folds ? "</summary>" : "");
  if (pages == PAGES)
    put_beside(f, page, text);
  else
    fputs(text[0], f);
  fputs(folds ? "</details>\n" : "</section>\n", f);
}

int kv_section_write(FILE *f, int pages, kv_page *page, const kv_figure *figure,
                     bool folds, bool *shown) {
  char *text[PAGES] = {NULL, NULL};
  int rc = KV_EXIT_OK;
  for (int i = 0; i < pages && !rc; i++) rc = take(page + i, figure, text + i);
  *shown = !rc && (some(text[0]) || some(text[1]));
  if (*shown) put(f, pages, page, text, figure, folds);
  for (int i = 0; i < PAGES; i++) free(text[i]);
  return rc;
}
