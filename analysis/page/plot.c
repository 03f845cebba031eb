/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/plot.h"
#include "analysis/tables/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 64, BEYOND = 26 /* the strip above a cut y axis */ };
enum { LEFT = 58, RIGHT = 16, TOP = 30, BOTTOM = 46 };

typedef struct box {
  double x, y, w, h;
} box;

static double px(const kv_plot *p, double x) {
  return LEFT + kv_axis_place(&p->x, x) * (p->width - LEFT - RIGHT);
}

static double top(const kv_plot *p) { return p->cut ? TOP + BEYOND : TOP; }

static bool beyond(const kv_plot *p, double y) { return p->cut && y > p->y.hi; }

static double py(const kv_plot *p, double y) {
  if (beyond(p, y)) return TOP + BEYOND / 2. + 3;
  return p->height - BOTTOM -
         kv_axis_place(&p->y, y) * (p->height - top(p) - BOTTOM);
}

static bool drawn(const kv_plot *p, const kv_mark *m) {
  return kv_axis_takes(&p->x, m->x) && kv_axis_takes(&p->y, m->y);
}

/* The x of a mark. In the strip above the axis, marks at one place are side by
 * side. */
static double at_x(const kv_plot *p, int i) {
  double x = px(p, p->mark[i].x);
  int before = 0;
  for (int j = 0; j < i && beyond(p, p->mark[i].y); j++)
    before += drawn(p, p->mark + j) && beyond(p, p->mark[j].y) &&
              fabs(px(p, p->mark[j].x) - x) < 12;
  return x + 13 * before;
}

static void number(const kv_axis *a, double v, FILE *f) {
  bool whole = !a->percent && fabs(v) >= 1000 && fabs(v) < 1e6;
  fprintf(f,
          a->percent ? "%.3g%%"
          : whole    ? "%.0f"
                     : "%.3g",
          a->percent ? v * 100 : v);
}

/* Draws the cut of a y axis: a line with a zigzag, and the strip's meaning. */
static void draw_cut(const kv_plot *p, FILE *f) {
  fprintf(f,
          "<path class=\"zero\" d=\"M%d,%dh6l4,-5l4,10l4,-10l4,5H%.1f\"/>"
          "<text x=\"%d\" y=\"%d\" class=\"t end\">beyond</text>\n",
          LEFT, TOP + BEYOND, p->width - RIGHT, LEFT - 7, TOP + 8);
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

static void draw_lines(const kv_plot *p, FILE *f) {
  for (int i = 0; i < p->n; i++) {
    int v = p->mark[i].variant, points = 0;
    kv_look k;
    if (i && p->mark[i - 1].variant == v) continue;
    k = kv_look_line(p->variants, v);
    fprintf(f, "<path class=\"k%d l d%d", k.colour, k.dash % 4);
    kv_look_line_class(k.line, f);
    fputs("\" d=\"", f);
    for (int j = i; j < p->n && p->mark[j].variant == v; j++)
      if (drawn(p, p->mark + j))
        fprintf(f, "%c%.1f,%.1f", points++ ? 'L' : 'M', px(p, p->mark[j].x),
                py(p, p->mark[j].y));
    fputs("\"/>\n", f);
  }
}

/* --- names of lines ------------------------------------------------------- */

static double overlap(box a, box b) {
  double w = fmin(a.x + a.w, b.x + b.w) - fmax(a.x, b.x);
  double h = fmin(a.y + a.h, b.y + b.h) - fmax(a.y, b.y);
  return w > 0 && h > 0 ? w * h : 0;
}

/* The cost of a name at a place: points covered, and parts outside the
 * frame. */
static double cost(const kv_plot *p, box at) {
  double sum = 0;
  for (int i = 0; i < p->n; i++) {
    box m = {px(p, p->mark[i].x) - 6, py(p, p->mark[i].y) - 6, 12, 12};
    if (drawn(p, p->mark + i)) sum += 2 * overlap(at, m);
  }
  if (at.x < LEFT || at.y < TOP - 8) sum += 4000;
  if (at.x + at.w > p->width || at.y + at.h > p->height - BOTTOM) sum += 4000;
  return sum;
}

/* Does no other mark have less of x and better y? */
static bool on_front(const kv_plot *p, int i) {
  const kv_mark *m = p->mark + i;
  double sign = p->more ? -1 : 1;
  if (!drawn(p, m)) return false;
  for (int j = 0; j < p->n; j++) {
    const kv_mark *o = p->mark + j;
    double dx = o->x - m->x, dy = sign * (o->y - m->y);
    if (drawn(p, o) && dx <= 0 && dy <= 0 && (dx < 0 || dy < 0)) return false;
  }
  return true;
}

static bool overlaps(box at, int n, const box *taken) {
  for (int i = 0; i < n; i++)
    if (overlap(at, taken[i]) > 0) return true;
  return false;
}

/* The best place next to a mark of first..last on the front that no other name
 * covers. False: none. */
static bool place_label(const kv_plot *p, int first, int last, double w, int n,
                        const box *taken, box *best) {
  static const double dx[] = {10, 9, 9, -10, -9, -9, 0, 0, 0, 0};
  static const double dy[] = {-7, -18, 5, -7, -18, 5, -23, 10, -37, 24};
  double least = HUGE_VAL;
  for (int i = last; i >= first; i--)
    for (int k = 0; k < 10; k++) {
      box at = {px(p, p->mark[i].x) + dx[k], py(p, p->mark[i].y) + dy[k], w,
                14};
      double c;
      if (!on_front(p, i)) break;
      if (dx[k] < 0) at.x -= w;
      if (dx[k] == 0) at.x -= w / 2;
      if (at.x < 2 || at.x + w > p->width || overlaps(at, n, taken)) continue;
      c = cost(p, at) + (last - i) + k * .1;
      if (c < least) least = c, *best = at;
    }
  return least < HUGE_VAL;
}

/* A name without a place is omitted: the table has it. */
static void draw_labels(const kv_plot *p, FILE *f) {
  box taken[MANY];
  int n = 0;
  for (int i = 0; i < p->n && n < MANY; i++) {
    int v = p->mark[i].variant, last = i;
    const char *label = p->variants->label[v];
    double wide = 7.3 * (double)strlen(label);
    if (i && p->mark[i - 1].variant == v) continue;
    while (last + 1 < p->n && p->mark[last + 1].variant == v) last++;
    if (!place_label(p, i, last, wide, n, taken, taken + n)) continue;
    kv_look k = kv_look_line(p->variants, v);
    fprintf(f, "<text class=\"k%d n", k.colour);
    kv_look_line_class(k.line, f);
    fprintf(f, "\" x=\"%.1f\" y=\"%.1f\">", taken[n].x, taken[n].y + 11);
    kv_text_html(label, f);
    fputs("</text>\n", f);
    n++;
  }
}

static void draw_mark(const kv_plot *p, int i, FILE *f) {
  const kv_mark *m = p->mark + i;
  kv_look k = kv_look_line(p->variants, m->variant);
  double x = at_x(p, i), y = py(p, m->y);
  if (beyond(p, m->y)) {
    fprintf(f, "<path class=\"k%d l", k.colour);
    kv_look_line_class(k.line, f);
    fprintf(f, "\" d=\"M%.1f,%.1fv-11m-3,4l3,-4l3,4\"/>\n", x, y - 4);
  }
  kv_plot_mark(k, m->solid, x, y, p->labels ? 5 : 4, m->tip, f);
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
  if (p->cut) draw_cut(p, f);
  draw_lines(p, f);
  if (p->labels) draw_labels(p, f); /* below the marks: halos hide */
  for (int i = 0; i < p->n; i++) {
    const kv_mark *m = p->mark + i;
    bool last = i + 1 == p->n || m[1].variant != m->variant;
    if (drawn(p, m) && (last || !p->bare)) draw_mark(p, i, f);
  }
  fputs("</svg>\n", f);
}
