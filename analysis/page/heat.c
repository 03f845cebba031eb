/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/heat.h"
#include "analysis/tables/text.h"

#include <math.h>

enum { SHADES = 20, LEFT = 44, RIGHT = 6, TOP = 18, BOTTOM = 36 };
/* A name takes as much as this of a side; a number, of a square. */
enum { NAME_WIDE = 34, NAME_HIGH = 14, NUMBER_WIDE = 22, NUMBER_HIGH = 13 };

/* -1: nothing is there. */
static int shade_at(const kv_heat *h, int row, int column) {
  double x = h->value[row * h->columns + column];
  return isfinite(x) ? (int)lrint(fmin(fmax(x, 0), 1) * SHADES) : -1;
}

static double at_x(const kv_heat *h, double column) {
  return LEFT + column * h->width / h->columns;
}

static double at_y(const kv_heat *h, double row) {
  return TOP + row * h->height / h->rows;
}

/* All squares of a shade as one path, in units of squares: a stroke of width 1
 * along the middle of each row. */
static void draw_shade(const kv_heat *h, int shade, FILE *f) {
  int n = 0;
  for (int r = 0; r < h->rows; r++)
    for (int c = 0, wide; c < h->columns; c += wide) {
      for (wide = 1; c + wide < h->columns &&
                     shade_at(h, r, c + wide) == shade_at(h, r, c);
           wide++) {
      }
      if (shade_at(h, r, c) != shade) continue;
      if (!n++)
        fprintf(f, "<path class=\"h\" stroke-opacity=\"%.2f\" d=\"",
                shade * .85 / SHADES + .03);
      fprintf(f, "M%d,%d.5h%d", c, r, wide);
    }
  if (n) fputs("\"/>\n", f);
}

/* Names that have room, on one side. */
static void draw_rows(const kv_heat *h, FILE *f) {
  int every = (int)ceil(NAME_HIGH * h->rows / h->height);
  for (int r = 0; r < h->rows; r += every) {
    fprintf(f, "<text class=\"t end\" x=\"%d\" y=\"%.1f\">", LEFT - 5,
            at_y(h, r + .5) + 4);
    kv_text_html(h->row_name(h->self, r), f);
    fputs("</text>\n", f);
  }
}

static void draw_columns(const kv_heat *h, FILE *f) {
  int every = (int)ceil(NAME_WIDE * h->columns / h->width);
  for (int c = 0; c < h->columns; c += every) {
    fprintf(f, "<text class=\"t mid\" x=\"%.1f\" y=\"%.1f\">", at_x(h, c + .5),
            at_y(h, h->rows) + 14);
    kv_text_html(h->column_name(h->self, c), f);
    fputs("</text>\n", f);
  }
}

static void draw_numbers(const kv_heat *h, FILE *f) {
  if (h->width / h->columns < NUMBER_WIDE || h->height / h->rows < NUMBER_HIGH)
    return;
  for (int r = 0; r < h->rows; r++)
    for (int c = 0; c < h->columns; c++) {
      double x = h->value[r * h->columns + c];
      if (isfinite(x))
        fprintf(f, "<text class=\"v mid\" x=\"%.1f\" y=\"%.1f\">%.0f</text>\n",
                at_x(h, c + .5), at_y(h, r + .5) + 4, 100 * x);
    }
}

static void write(const kv_heat *h, FILE *f) {
  double width = LEFT + h->width + RIGHT, height = TOP + h->height + BOTTOM;
  fprintf(f,
          "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\" "
          "aria-label=\"",
          width, height, width);
  kv_text_html(h->title, f);
  fprintf(f, "\">\n<g transform=\"translate(%d %d) scale(%.3f %.3f)\">\n", LEFT,
          TOP, h->width / h->columns, h->height / h->rows);
  for (int s = 0; s <= SHADES; s++) draw_shade(h, s, f);
  fputs("</g>\n", f);
  fprintf(f,
          "<path class=\"g\" d=\"M%d,%dh%.0fv%.0fh-%.0fz\"/>"
          "<text class=\"a\" x=\"2\" y=\"12\">",
          LEFT, TOP, h->width, h->height, h->width);
  kv_text_html(h->row, f);
  fprintf(f, "</text><text class=\"a mid\" x=\"%.1f\" y=\"%.1f\">",
          at_x(h, h->columns / 2.), at_y(h, h->rows) + 30);
  kv_text_html(h->column, f);
  fputs("</text>\n", f);
  draw_rows(h, f);
  draw_columns(h, f);
  draw_numbers(h, f);
  fputs("</svg>\n", f);
}

void kv_heat_titled(const kv_heat *h, const char *heading, FILE *f) {
  fputs("<div><h3>", f);
  kv_text_html(heading, f);
  fputs("</h3>\n", f);
  write(h, f);
  fputs("</div>\n", f);
}
