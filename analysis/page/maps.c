/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/page/maps.h"
#include "analysis/database/say.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The last of some names with blanks between. */
static const char *last_of(const char *columns) {
  const char *blank = strrchr(columns, ' ');
  return blank ? blank + 1 : columns;
}

/* The place of row r on a side of n, looked for from place `near` on, as rows
 * mostly come in the order of their places; n: it is not there. */
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
    near = place; /* the next row has the same value, or the one behind it */
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

static const char *row_name(const void *self, int i) {
  const kv_map *m = self;
  return name_of(m, m->how->row, m->how->row_name, i, m->row[i]);
}

static const char *column_name(const void *self, int i) {
  const kv_map *m = self;
  return name_of(m, m->how->column, m->how->column_name, i, m->column[i]);
}

void kv_map_draw(const kv_map *m, const char *heading, FILE *f) {
  const kv_maps *how = m->how;
  double width = fmin(how->most_wide, how->wide * m->columns);
  kv_heat_titled(
      &(kv_heat){.title = heading,
                 .rows = m->rows,
                 .columns = m->columns,
                 .value = m->value,
                 .row = how->row_title,
                 .column = how->column_title,
                 .row_name = row_name,
                 .column_name = column_name,
                 .self = m,
                 .width = fmax(how->least_wide, width),
                 .height = fmin(how->most_high, how->high * m->rows)},
      heading, f);
}

void kv_map_free(kv_map *m) {
  free(m->row);
  free(m->column);
  free(m->value);
  *m = (kv_map){0};
}

void kv_map_show(const kv_grid *g, const kv_maps *how, int first, int end,
                 const char *heading, FILE *f) {
  kv_map m;
  if (!kv_map_find(g, how, first, end, first, end, &m)) return;
  kv_map_draw(&m, heading, f);
  kv_map_free(&m);
}
