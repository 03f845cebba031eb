/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids as text. CSV as RFC 4180 has it; JSON with integers as integers and
 * reals to all 17 digits; the table for people, reals to 4 digits.
 */
#include "analysis/grid.h"
#include "analysis/say.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const kv_value *at(const kv_grid *g, int r, int c) {
  return g->value + (size_t)r * (size_t)g->columns + c;
}

/* --- CSV ------------------------------------------------------------------ */

static void csv_text(const char *t, FILE *f) {
  if (!strpbrk(t, ",\"\r\n")) {
    fputs(t, f);
    return;
  }
  putc('"', f);
  for (; *t; t++) {
    if (*t == '"') putc('"', f);
    putc(*t, f);
  }
  putc('"', f);
}

static void write_csv(const kv_grid *g, FILE *f) {
  for (int c = 0; c < g->columns; c++) {
    if (c) putc(',', f);
    csv_text(g->name[c], f);
  }
  fputs("\n", f);
  for (int r = 0; r < g->rows; r++)
    for (int c = 0; c < g->columns; c++) {
      const kv_value *v = at(g, r, c);
      if (c) putc(',', f);
      if (v->text && v->real)
        fprintf(f, "%.17g", v->number);
      else if (v->text)
        csv_text(v->text, f);
      if (c == g->columns - 1) putc('\n', f);
    }
}

/* --- JSON ----------------------------------------------------------------- */

static json_t *json_value(const char *name, const kv_value *v) {
  if (!v->text) return json_null();
  if (!strcmp(name, "params")) {
    json_t *params = json_loads(v->text, JSON_ALLOW_NUL, NULL);
    if (params) return params;
  }
  if (isnan(v->number)) return json_string(v->text);
  if (v->real) return json_real(v->number);
  return json_integer(strtoll(v->text, NULL, 10));
}

static void json_row(const kv_grid *g, int r, FILE *f) {
  json_t *row = json_object();
  for (int c = 0; c < g->columns; c++)
    json_object_set_new(row, g->name[c], json_value(g->name[c], at(g, r, c)));
  json_dumpf(row, f, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(row);
}

static void write_json(const kv_grid *g, FILE *f) {
  fputs("[", f);
  for (int r = 0; r < g->rows; r++) {
    fputs(r ? ",\n " : "\n ", f);
    json_row(g, r, f);
  }
  fputs(g->rows ? "\n]\n" : "]\n", f);
}

static void write_jsonl(const kv_grid *g, FILE *f) {
  for (int r = 0; r < g->rows; r++) {
    json_row(g, r, f);
    putc('\n', f);
  }
}

/* --- for people ------------------------------------------------------------
 */

enum { SHOW = 48 };

static void show(const kv_value *v, char out[SHOW]) {
  if (!v->text)
    strcpy(out, "-");
  else if (v->real)
    snprintf(out, SHOW, "%.4g", v->number);
  else
    snprintf(out, SHOW, "%.*s", SHOW - 1, v->text);
}

static int width(const kv_grid *g, int c) {
  int w = (int)strlen(g->name[c]);
  for (int r = 0; r < g->rows; r++) {
    char text[SHOW];
    int n;
    show(at(g, r, c), text);
    n = (int)strlen(text);
    if (n > w) w = n;
  }
  return w;
}

/* Columns of numbers, or of shares like 12%, stand to the right. */
static bool is_number(const kv_grid *g, int c) {
  for (int r = 0; r < g->rows; r++) {
    const char *t = at(g, r, c)->text;
    if (t && isnan(at(g, r, c)->number) && t[strspn(t, "0123456789.")] != '%')
      return false;
  }
  return true;
}

static void write_table(const kv_grid *g, FILE *f) {
  int *wide = calloc((size_t)g->columns + 1, sizeof *wide);
  if (!wide) {
    kv_say_short();
    return;
  }
  for (int c = 0; c < g->columns; c++)
    wide[c] = is_number(g, c) ? width(g, c) : -width(g, c);
  for (int r = -1; r < g->rows; r++)
    for (int c = 0; c < g->columns; c++) {
      char text[SHOW];
      bool last = c == g->columns - 1;
      snprintf(text, SHOW, "%.*s", SHOW - 1, g->name[c]);
      if (r >= 0) show(at(g, r, c), text);
      if (last && wide[c] < 0)
        fprintf(f, "%s\n", text);
      else
        fprintf(f, "%*s%s", wide[c], text, last ? "\n" : "  ");
    }
  free(wide);
}

void kv_grid_write(const kv_grid *g, kv_format format, FILE *f) {
  static void (*const write[])(const kv_grid *, FILE *) = {
      write_table, write_csv, write_json, write_jsonl};
  write[format](g, f);
}
