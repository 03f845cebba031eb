/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing. Units are those of the viewBox; a plot is as wide as its page.
 */
#include "analysis/plot.h"
#include "analysis/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 8, SHAPES = 5, MANY = 64 };
enum { LEFT = 58, RIGHT = 16, TOP = 30, BOTTOM = 46 };

typedef struct box {
  double x, y, w, h;
} box;

void kv_plot_mark(int variant, bool solid, double x, double y, double r,
                  const char *tip, FILE *f) {
  /* circle, square, triangle up, diamond, triangle down: unit outlines of
   * about equal area */
  static const char *const shape[SHAPES] = {
      "M-1,0A1,1 0 1 1 1,0A1,1 0 1 1 -1,0Z", "M-.9,-.9H.9V.9H-.9Z",
      "M0,-1.2L1.1,.8H-1.1Z", "M0,-1.3L1.1,0L0,1.3L-1.1,0Z",
      "M0,1.2L1.1,-.8H-1.1Z"};
  fprintf(f,
          "<path class=\"k%d m%s\" d=\"%s\" transform=\"translate(%.1f %.1f) "
          "scale(%.1f)\">",
          variant % COLOURS, solid ? "" : " o", shape[variant % SHAPES], x, y,
          r);
  if (*tip) {
    fputs("<title>", f);
    kv_text_html(tip, f);
    fputs("</title>", f);
  }
  fputs("</path>\n", f);
}

void kv_plot_legend(const kv_variants *v, FILE *f) {
  fputs("<ul class=\"legend\">\n", f);
  for (int i = 0; i < v->n; i++) {
    fprintf(f,
            "<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\"><path "
            "class=\"k%d l%s\" d=\"M1,7H33\"/>",
            i % COLOURS, i / COLOURS % 2 ? " d" : "");
    kv_plot_mark(i, true, 17, 7, 4.5, "", f);
    fputs("</svg>", f);
    kv_text_html(v->label[i], f);
    fputs("</li>\n", f);
  }
  fputs("</ul>\n", f);
}

static double px(const kv_plot *p, double x) {
  return LEFT + kv_axis_place(&p->x, x) * (p->width - LEFT - RIGHT);
}

static double py(const kv_plot *p, double y) {
  return p->height - BOTTOM -
         kv_axis_place(&p->y, y) * (p->height - TOP - BOTTOM);
}

static void number(const kv_axis *a, double v, FILE *f) {
  bool whole = !a->percent && fabs(v) >= 1000 && fabs(v) < 1e6;
  fprintf(f,
          a->percent ? "%.3g%%"
          : whole    ? "%.0f"
                     : "%.3g",
          a->percent ? v * 100 : v);
}

static void draw_axes(const kv_plot *p, FILE *f) {
  double tick[16], bottom = p->height - BOTTOM, right = p->width - RIGHT;
  double last = -100;
  int n = kv_axis_ticks(&p->x, tick);
  for (int i = 0; i < n; i++) {
    double x = px(p, tick[i]);
    fprintf(f, "<path class=\"g\" d=\"M%.1f,%dV%.1f\"/>", x, TOP, bottom);
    if (x - last < 34) continue;
    last = x;
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"t mid\">", x, bottom + 16);
    number(&p->x, tick[i], f);
    fputs("</text>\n", f);
  }
  n = kv_axis_ticks(&p->y, tick);
  for (int i = 0; i < n; i++) {
    double y = py(p, tick[i]);
    fprintf(f, "<path class=\"g\" d=\"M%d,%.1fH%.1f\"/>", LEFT, y, right);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" class=\"t end\">", LEFT - 7, y + 4);
    number(&p->y, tick[i], f);
    fputs("</text>\n", f);
  }
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"a mid\">", (LEFT + right) / 2,
          p->height - 10);
  kv_text_html(p->x.title, f);
  fprintf(f, "</text>\n<text x=\"%d\" y=\"%d\" class=\"a\">", 4, 16);
  kv_text_html(p->y.title, f);
  fputs("</text>\n", f);
}

static bool drawn(const kv_plot *p, const kv_mark *m) {
  return kv_axis_takes(&p->x, m->x) && kv_axis_takes(&p->y, m->y);
}

static void draw_lines(const kv_plot *p, FILE *f) {
  for (int i = 0; i < p->n; i++) {
    int v = p->mark[i].variant, points = 0;
    if (i && p->mark[i - 1].variant == v) continue;
    fprintf(f, "<path class=\"k%d l%s\" d=\"", v % COLOURS,
            v / COLOURS % 2 ? " d" : "");
    for (int j = i; j < p->n && p->mark[j].variant == v; j++)
      if (drawn(p, p->mark + j))
        fprintf(f, "%c%.1f,%.1f", points++ ? 'L' : 'M', px(p, p->mark[j].x),
                py(p, p->mark[j].y));
    fputs("\"/>\n", f);
  }
}

/* --- names beside the lines ----------------------------------------------- */

static double overlap(box a, box b) {
  double w = fmin(a.x + a.w, b.x + b.w) - fmax(a.x, b.x);
  double h = fmin(a.y + a.h, b.y + b.h) - fmax(a.y, b.y);
  return w > 0 && h > 0 ? w * h : 0;
}

/* What a name would cover: other names, points, the frame's outside. */
static double cost(const kv_plot *p, box at, int n, const box *taken) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += 4 * overlap(at, taken[i]);
  for (int i = 0; i < p->n; i++) {
    box m = {px(p, p->mark[i].x) - 6, py(p, p->mark[i].y) - 6, 12, 12};
    if (drawn(p, p->mark + i)) sum += 2 * overlap(at, m);
  }
  if (at.x < LEFT || at.y < TOP - 8) sum += 4000;
  if (at.x + at.w > p->width || at.y + at.h > p->height - BOTTOM) sum += 4000;
  return sum;
}

static box place_label(const kv_plot *p, int first, int last, double w, int n,
                       const box *taken) {
  static const double dx[] = {10, 9, 9, -10, -9, -9, 0, 0};
  static const double dy[] = {-7, -18, 5, -7, -18, 5, -23, 10};
  box best = {0, 0, w, 14};
  double least = HUGE_VAL;
  for (int i = last; i >= first; i--)
    for (int k = 0; k < 8; k++) {
      box at = {px(p, p->mark[i].x) + dx[k], py(p, p->mark[i].y) + dy[k], w,
                14};
      double c;
      if (!drawn(p, p->mark + i)) continue;
      if (dx[k] < 0) at.x -= w;
      if (dx[k] == 0) at.x -= w / 2;
      c = cost(p, at, n, taken) + (last - i) + k * .1;
      if (c < least) least = c, best = at;
    }
  return best;
}

static void draw_labels(const kv_plot *p, FILE *f) {
  box taken[MANY];
  int n = 0;
  for (int i = 0; i < p->n && n < MANY; i++) {
    int v = p->mark[i].variant, last = i;
    const char *label = p->variants->label[v];
    if (i && p->mark[i - 1].variant == v) continue;
    while (last + 1 < p->n && p->mark[last + 1].variant == v) last++;
    taken[n] = place_label(p, i, last, 7.3 * (double)strlen(label), n, taken);
    if (taken[n].x > 0) {
      fprintf(f, "<text class=\"k%d n\" x=\"%.1f\" y=\"%.1f\">", v % COLOURS,
              taken[n].x, taken[n].y + 11);
      kv_text_html(label, f);
      fputs("</text>\n", f);
    }
    n++;
  }
}

static int by_line(const void *a, const void *b) {
  const kv_mark *x = a, *y = b;
  if (x->variant != y->variant) return x->variant < y->variant ? -1 : 1;
  return x->x < y->x ? -1 : x->x > y->x;
}

void kv_plot_write(kv_plot *p, FILE *f) {
  qsort(p->mark, (size_t)p->n, sizeof *p->mark, by_line);
  fprintf(f, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"",
          p->width, p->height);
  kv_text_html(p->title, f);
  fputs(". ", f);
  kv_text_html(p->text, f);
  fputs("\">\n", f);
  draw_axes(p, f);
  draw_lines(p, f);
  if (p->labels) draw_labels(p, f); /* below the marks: halos hide */
  for (int i = 0; i < p->n; i++) {
    const kv_mark *m = p->mark + i;
    bool last = i + 1 == p->n || m[1].variant != m->variant;
    if (drawn(p, m) && (last || !p->bare))
      kv_plot_mark(m->variant, m->solid, px(p, m->x), py(p, m->y),
                   p->labels ? 5 : 4, m->tip, f);
  }
  fputs("</svg>\n", f);
}
