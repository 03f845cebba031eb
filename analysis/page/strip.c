/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/strip.h"
#include "analysis/database/say.h"
#include "analysis/tables/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1080, ROW = 24, TOP = 6, BOTTOM = 44, LETTER = 7, BAR = 14 };

typedef struct frame {
  const kv_strip *s;
  kv_axis x;
  double left, right, bottom;
} frame;

/* Characters, not bytes. */
static int letters(const char *t) {
  int n = 0;
  bool shown;
  for (; *t; t += kv_text_next(t, &shown)) n++;
  return n;
}

static double at(const frame *w, double x) {
  return w->left + kv_axis_place(&w->x, x) * (w->right - w->left);
}

static double middle(int row) { return TOP + (row + .5) * ROW; }

static bool drawn(const frame *w, const kv_strip_item *i) {
  return kv_axis_takes(&w->x, i->x0) &&
         (i->kind == KV_STRIP_POINT || kv_axis_takes(&w->x, i->x1));
}

/* Names take the space they need at the left, notes at the right. */
static bool measure(const kv_strip *s, frame *w) {
  int name = 0, note = 0, n = 0;
  kv_mark *end = calloc(2 * (size_t)s->n + 2, sizeof *end);
  if (!end) return false;
  *w = (frame){.s = s, .x = s->x, .bottom = TOP + s->rows * ROW};
  for (int r = 0; r < s->rows; r++) {
    if (letters(s->row[r].name) > name) name = letters(s->row[r].name);
    if (letters(s->row[r].note) > note) note = letters(s->row[r].note);
  }
  w->left = fmin(40 + LETTER * name, WIDTH * .55);
  w->right = WIDTH - 24 - fmin(LETTER * note, WIDTH / 4.);
  for (int i = 0; i < s->n; i++) {
    if (!drawn(w, &s->item[i])) continue;
    end[n++].x = s->item[i].x0;
    if (s->item[i].kind != KV_STRIP_POINT) end[n++].x = s->item[i].x1;
  }
  if (!s->x.log) end[n++].x = 0;
  if (s->x.hi > 0) end[n++].x = s->x.hi;
  kv_axis_fit(&w->x, n, end, false);
  free(end);
  return true;
}

static void draw_axis(const frame *w, FILE *f) {
  double tick[16], last = -100;
  int n = kv_axis_ticks(&w->x, tick);
  for (int i = 0; i < n; i++) {
    double x = at(w, tick[i]);
    bool marked = w->s->x.hi > 0 && (tick[i] == 0 || tick[i] == w->s->x.hi);
    fprintf(f, "<path class=\"%s\" d=\"M%.1f,%dV%.1f\"/>",
            marked ? "zero" : "g", x, TOP, w->bottom);
    if (x - last < 34) continue;
    last = x;
    fprintf(f, "<text class=\"t mid\" x=\"%.1f\" y=\"%.1f\">", x,
            w->bottom + 16);
    fprintf(f, w->x.percent ? "%.3g%%" : "%.3g",
            w->x.percent ? 100 * tick[i] : tick[i]);
    fputs("</text>\n", f);
  }
  fprintf(f, "<text class=\"a mid\" x=\"%.1f\" y=\"%.1f\">",
          (w->left + w->right) / 2, w->bottom + 36);
  kv_text_html(w->x.title, f);
  fputs("</text>\n", f);
}

static void draw_names(const frame *w, FILE *f) {
  for (int r = 0; r < w->s->rows; r++) {
    const kv_strip_row *row = &w->s->row[r];
    fputs("<text class=\"r end", f);
    kv_look_line_class(row->line, f);
    fprintf(f, "\" x=\"%.1f\" y=\"%.1f\">", w->left - 14, middle(r) + 4);
    kv_text_html(row->name, f);
    fputs("</text><text class=\"t end", f);
    kv_look_line_class(row->line, f);
    fprintf(f, "\" x=\"%d\" y=\"%.1f\">", WIDTH - 4, middle(r) + 4);
    kv_text_html(row->note, f);
    fputs("</text>\n", f);
  }
}

static void draw_bar(const frame *w, const kv_strip_item *i, FILE *f) {
  double x = at(w, i->x0);
  fprintf(f, "<path class=\"k%d b", i->look.colour);
  kv_look_line_class(w->s->row[i->row].line, f);
  fprintf(f, "\" d=\"M%.1f,%.1fH%.1fv%dH%.1fz\"><title>", x,
          middle(i->row) - BAR / 2., at(w, i->x1), BAR, x);
  kv_text_html(i->tip, f);
  fputs("</title></path>\n", f);
}

static void draw_line(const frame *w, const kv_strip_item *i, FILE *f) {
  fputs("<path class=\"w", f);
  kv_look_line_class(w->s->row[i->row].line, f);
  fprintf(f, "\" d=\"M%.1f,%.1fH%.1f\"/>\n", at(w, i->x0), middle(i->row),
          at(w, i->x1));
}

static void draw_point(const frame *w, const kv_strip_item *i, FILE *f) {
  kv_look look = i->look;
  look.line = w->s->row[i->row].line;
  if (i->beyond) {
    fprintf(f, "<path class=\"k%d l", look.colour);
    kv_look_line_class(look.line, f);
    fprintf(f, "\" d=\"M%.1f,%.1fh-12m4,-3l-4,3l4,3\"/>\n", at(w, i->x0),
            middle(i->row));
  }
  kv_plot_mark(look, i->solid, at(w, i->x0), middle(i->row), 5, i->tip, f);
}

/* Points last, above the other items of their row. */
static void draw_items(const frame *w, FILE *f) {
  for (int n = 0; n < w->s->n; n++) {
    const kv_strip_item *i = &w->s->item[n];
    if (!drawn(w, i)) continue;
    if (i->kind == KV_STRIP_BAR) draw_bar(w, i, f);
    if (i->kind == KV_STRIP_LINE) draw_line(w, i, f);
  }
  for (int n = 0; n < w->s->n; n++) {
    const kv_strip_item *i = &w->s->item[n];
    if (i->kind == KV_STRIP_POINT && drawn(w, i)) draw_point(w, i, f);
  }
}

static void write(const kv_strip *s, FILE *f) {
  frame w;
  if (!measure(s, &w)) {
    kv_tell_short();
    return;
  }
  fprintf(f,
          "<div class=\"wide\"><svg viewBox=\"0 0 %d %.0f\" role=\"img\" "
          "aria-label=\"",
          WIDTH, w.bottom + BOTTOM);
  kv_text_html(s->title, f);
  fputs(". The data are in the file below.\">\n", f);
  draw_axis(&w, f);
  draw_names(&w, f);
  draw_items(&w, f);
  fputs("</svg></div>\n", f);
}

void kv_strip_rows(kv_strip *s, const kv_grid *g, int first, int end, int most,
                   kv_strip_add *add, FILE *f) {
  size_t n = (size_t)(end - first) + 1;
  s->row = calloc(n, sizeof *s->row);
  s->item = calloc(n * (size_t)most, sizeof *s->item);
  if (s->row && s->item) {
    for (int r = first; r < end;) r = add(g, r, s);
    write(s, f);
  } else {
    kv_tell_short();
  }
  free(s->row);
  free(s->item);
}
