/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/maps.h"
#include "analysis/database/say.h"
#include "analysis/tables/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The last of names separated by blanks. */
static const char *last_of(const char *columns) {
  const char *blank = strrchr(columns, ' ');
  return blank ? blank + 1 : columns;
}

/* The position of row r on a side with n values, searched from `near` on, since
 * rows are mostly sorted; n: it is not there. */
static int place_of(const kv_grid *g, const char *columns, int n,
                    const int *side, int near, int r) {
  for (int i = 0; i < n; i++) {
    int at = (near + i) % n;
    if (kv_grid_alike(g, side[at], r, columns)) return at;
  }
  return n;
}

/* Numbers in ascending order, texts by their bytes. */
static bool before(const kv_grid *g, const char *name, int a, int b) {
  double x = kv_grid_number(g, a, name), y = kv_grid_number(g, b, name);
  if (isfinite(x) && isfinite(y)) return x < y;
  return strcmp(kv_grid_text(g, a, name), kv_grid_text(g, b, name)) < 0;
}

static bool has_square(const kv_grid *g, const kv_maps *how, int r) {
  return !(kv_grid_number(g, r, last_of(how->column)) < 0);
}

static int find_side(const kv_map *m, const char *columns, const char *order,
                     int first, int end, int *side) {
  int n = 0, near = 0;
  for (int r = first; r < end; r++) {
    if (!has_square(m->g, m->how, r)) continue;
    int place = place_of(m->g, columns, n, side, near, r);
    near = place; /* the next row has the same value, or the next one */
    if (place < n) continue;
    for (n++; near && before(m->g, order, r, side[near - 1]); near--)
      side[near] = side[near - 1];
    side[near] = r;
  }
  return n;
}

static void fill(kv_map *m, int first, int end) {
  int n = m->rows * m->columns, y = 0, x = 0;
  for (int i = 0; i < n; i++) m->value[i] = NAN;
  for (int r = first; r < end; r++) {
    y = place_of(m->g, m->how->row, m->rows, m->row, y, r);
    x = place_of(m->g, m->how->column, m->columns, m->column, x + 1, r);
    if (y < m->rows && x < m->columns)
      m->value[y * m->columns + x] = kv_grid_number(m->g, r, m->how->value);
  }
}

bool kv_map_find(const kv_grid *g, const kv_maps *how, int side_first,
                 int side_end, int first, int end, kv_map *m) {
  size_t n = (size_t)(side_end - side_first) + 1;
  const char *order = how->order ? how->order : last_of(how->column);
  *m = (kv_map){.g = g, .how = how};
  m->row = calloc(n, sizeof *m->row);
  m->column = calloc(n, sizeof *m->column);
  if (m->row && m->column) {
    m->rows =
        find_side(m, how->row, last_of(how->row), side_first, side_end, m->row);
    m->columns =
        find_side(m, how->column, order, side_first, side_end, m->column);
    m->value =
        calloc((size_t)m->rows * (size_t)m->columns + 1, sizeof *m->value);
  }
  if (m->value) {
    fill(m, first, end);
    return true;
  }
  kv_tell_short();
  kv_map_free(m);
  return false;
}

static const char *name_of(const kv_map *m, const char *columns,
                           const char *name, int i, int row) {
  static char number[16];
  if (name) return kv_grid_text(m->g, row, name);
  if (!m->how->numbered) return kv_grid_text(m->g, row, last_of(columns));
  snprintf(number, sizeof number, "%d", i + 1);
  return number;
}

void kv_map_free(kv_map *m) {
  free(m->row);
  free(m->column);
  free(m->value);
  *m = (kv_map){0};
}

/* --- drawing -------------------------------------------------------------- */

enum { SHADES = 20, LEFT = 44, RIGHT = 6, TOP = 18, BOTTOM = 36 };
/* Space for a name at a side, and for a number in a square. */
enum { NAME_WIDE = 34, NAME_HIGH = 14, NUMBER_WIDE = 22, NUMBER_HIGH = 13 };

/* Width of all squares together, in units of the page. */
static double wide(const kv_map *m) {
  return fmax(m->how->least_wide,
              fmin(m->how->most_wide, m->how->wide * m->columns));
}

static double high(const kv_map *m) {
  return fmin(m->how->most_high, m->how->high * m->rows);
}

/* -1: no value. */
static int shade_at(const kv_map *m, int row, int column) {
  double x = m->value[row * m->columns + column];
  return isfinite(x) ? (int)lrint(fmin(fmax(x, 0), 1) * SHADES) : -1;
}

static double at_x(const kv_map *m, double column) {
  return LEFT + column * wide(m) / m->columns;
}

static double at_y(const kv_map *m, double row) {
  return TOP + row * high(m) / m->rows;
}

/* All squares of a shade as one path, in units of squares: a stroke of width 1
 * along the middle of each row. */
static void draw_shade(const kv_map *m, int shade, FILE *f) {
  int n = 0;
  for (int r = 0; r < m->rows; r++)
    for (int c = 0, wide; c < m->columns; c += wide) {
      for (wide = 1; c + wide < m->columns &&
                     shade_at(m, r, c + wide) == shade_at(m, r, c);
           wide++) {
      }
      if (shade_at(m, r, c) != shade) continue;
      if (!n++)
        fprintf(f, "<path class=\"h\" stroke-opacity=\"%.2f\" d=\"",
                shade * .85 / SHADES + .03);
      fprintf(f, "M%d,%d.5h%d", c, r, wide);
    }
  if (n) fputs("\"/>\n", f);
}

/* Writes names on one side, as many as fit. */
static void draw_rows(const kv_map *m, FILE *f) {
  int every = (int)ceil(NAME_HIGH * m->rows / high(m));
  for (int r = 0; r < m->rows; r += every) {
    fprintf(f, "<text class=\"t end\" x=\"%d\" y=\"%.1f\">", LEFT - 5,
            at_y(m, r + .5) + 4);
    kv_text_html(name_of(m, m->how->row, m->how->row_name, r, m->row[r]), f);
    fputs("</text>\n", f);
  }
}

static void draw_columns(const kv_map *m, FILE *f) {
  int every = (int)ceil(NAME_WIDE * m->columns / wide(m));
  for (int c = 0; c < m->columns; c += every) {
    fprintf(f, "<text class=\"t mid\" x=\"%.1f\" y=\"%.1f\">", at_x(m, c + .5),
            at_y(m, m->rows) + 14);
    kv_text_html(
        name_of(m, m->how->column, m->how->column_name, c, m->column[c]), f);
    fputs("</text>\n", f);
  }
}

static void draw_numbers(const kv_map *m, FILE *f) {
  if (wide(m) / m->columns < NUMBER_WIDE || high(m) / m->rows < NUMBER_HIGH)
    return;
  for (int r = 0; r < m->rows; r++)
    for (int c = 0; c < m->columns; c++) {
      double x = m->value[r * m->columns + c];
      if (isfinite(x))
        fprintf(f, "<text class=\"v mid\" x=\"%.1f\" y=\"%.1f\">%.0f</text>\n",
                at_x(m, c + .5), at_y(m, r + .5) + 4, 100 * x);
    }
}

static void write(const kv_map *m, const char *title, FILE *f) {
  double width = LEFT + wide(m) + RIGHT, height = TOP + high(m) + BOTTOM;
  fprintf(f,
          "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\" "
          "aria-label=\"",
          width, height, width);
  kv_text_html(title, f);
  fprintf(f, "\">\n<g transform=\"translate(%d %d) scale(%.3f %.3f)\">\n", LEFT,
          TOP, wide(m) / m->columns, high(m) / m->rows);
  for (int s = 0; s <= SHADES; s++) draw_shade(m, s, f);
  fputs("</g>\n", f);
  fprintf(f,
          "<path class=\"g\" d=\"M%d,%dh%.0fv%.0fh-%.0fz\"/>"
          "<text class=\"a\" x=\"2\" y=\"12\">",
          LEFT, TOP, wide(m), high(m), wide(m));
  kv_text_html(m->how->row_title, f);
  fprintf(f, "</text><text class=\"a mid\" x=\"%.1f\" y=\"%.1f\">",
          at_x(m, m->columns / 2.), at_y(m, m->rows) + 30);
  kv_text_html(m->how->column_title, f);
  fputs("</text>\n", f);
  draw_rows(m, f);
  draw_columns(m, f);
  draw_numbers(m, f);
  fputs("</svg>\n", f);
}

void kv_map_draw(const kv_map *m, const char *heading, FILE *f) {
  fputs("<div><h3>", f);
  kv_text_html(heading, f);
  fputs("</h3>\n", f);
  write(m, heading, f);
  fputs("</div>\n", f);
}
