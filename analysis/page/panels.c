/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/panels.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANELS = 48 }; /* that are drawn; the data have all */

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The series of all panels, in the order of their names, which stay the
 * grid's. */
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

/* Lines that all are the page's look as they do there. */
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

/* Marks of rows first..end-1 that can be drawn. */
static int gather(const kv_grid *g, const kv_panels *s, const kv_variants *v,
                  int first, int end, kv_mark *mark) {
  int n = 0;
  for (int r = first; r < end; r++) {
    const char *series = kv_grid_text(g, r, series_of(s));
    const char *asked = kv_grid_text(g, r, "asked");
    char x[96], y[96];
    kv_mark *m = mark + n;
    *m = (kv_mark){kv_grid_number(g, r, s->x), kv_grid_number(g, r, s->y),
                   v->of[r], kv_grid_number(g, r, "confirmed") > 0, ""};
    if (m->variant < 0 || !isfinite(m->x) || !isfinite(m->y)) continue;
    say(&s->across, m->x, sizeof x, x);
    say(&s->up, m->y, sizeof y, y);
    snprintf(m->tip, sizeof m->tip, "%.*s%s%.*s; %s; %s",
             kv_text_cut(series, 60), series, *asked ? " at " : "",
             kv_text_cut(asked, 20), asked, y, x);
    n++;
  }
  return n;
}

static void fit(kv_plot *plot, const kv_panels *s, int n) {
  plot->x = s->across;
  plot->y = s->up;
  kv_axis_fit(&plot->x, n, plot->mark, false);
  kv_axis_fit(&plot->y, n, plot->mark, true);
}

static void draw(const kv_page *p, const kv_panels *s, const char *name,
                 kv_plot *plot) {
  char title[320];
  snprintf(title, sizeof title, "%s: %.*s", s->title, kv_text_cut(name, 200),
           name);
  plot->title = title;
  fputs("<div><h3>", p->f);
  kv_text_html(name, p->f);
  fputs("</h3>\n", p->f);
  kv_plot_write(plot, p->f);
  fputs("</div>\n", p->f);
}

/* The names of the series, then the plots. */
static void draw_all(const kv_page *p, const kv_grid *g, const kv_panels *s) {
  kv_variants v;
  kv_plot plot = {.width = 520,
                  .height = 330,
                  .text = "The data are in the file below.",
                  .bare = s->bare,
                  .variants = &v};
  plot.mark = calloc((size_t)g->rows + 1, sizeof *plot.mark);
  if (!find_series(g, series_of(s), &v) || !plot.mark) {
    kv_tell_short();
  } else {
    dress(p, &v);
    kv_plot_legend(&v, p->f);
    fit(&plot, s, gather(g, s, &v, 0, g->rows, plot.mark));
    fputs("<div class=\"small two\">\n", p->f);
    for (int r = 0, n = 0, end; r < g->rows && n < PANELS; r = end, n++) {
      end = kv_grid_end(g, r, panel_of(s));
      plot.n = gather(g, s, &v, r, end, plot.mark);
      if (s->apart) fit(&plot, s, plot.n);
      if (plot.n) draw(p, s, kv_grid_text(g, r, panel_of(s)), &plot);
    }
    fputs("</div>\n", p->f);
  }
  free(plot.mark);
  free(v.label);
  free(v.of);
  free(v.look);
}

int kv_figure_draw(const kv_page *p, const kv_figure *f) {
  kv_grid g;
  if (f->write) return f->write(p, f);
  int rc = kv_grid_ask(p->db, f->ask, 0, NULL, &g);
  if (rc) return rc;
  if (g.rows) {
    fputs("<figure>\n", p->f);
    if (f->group) fprintf(p->f, "<div class=\"%s\">\n", f->group);
    if (f->draw)
      f->draw(p, &g);
    else
      draw_all(p, &g, &f->panels);
    if (f->group) fputs("</div>\n", p->f);
    (f->closed ? kv_page_answered : kv_page_caption)(p, f->caption, f->id,
                                                     f->unlinked ? NULL : &g);
    fputs("</figure>\n", p->f);
  }
  kv_grid_free(&g);
  return rc;
}
