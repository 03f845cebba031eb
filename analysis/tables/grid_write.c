/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/grid_write.h"
#include "analysis/database/say.h"
#include "analysis/tables/text.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const kv_value *at(const kv_grid *g, int r, int c) {
  return g->value + (size_t)r * (size_t)g->columns + c;
}

/* --- CSV ------------------------------------------------------------------ */

static void csv_text(const char *t, FILE *f) {
  bool quoted = strpbrk(t, ",\"");
  if (quoted) putc('"', f);
  for (int n; *t; t += n) {
    bool shown;
    char one[5] = "";
    n = kv_text_next(t, &shown);
    memcpy(one, t, (size_t)n);
    if (*t == '"') putc('"', f);
    kv_text_write(one, f);
  }
  if (quoted) putc('"', f);
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

/* JSON can express every character, but not bytes that are no UTF-8. */
static json_t *json_text(const char *t) {
  char *shown = NULL;
  size_t size = 0;
  if (kv_text_valid(t)) return json_string(t);
  FILE *f = open_memstream(&shown, &size);
  if (f) kv_text_write(t, f);
  if (!f || fclose(f)) kv_tell_short();
  json_t *text = json_string(shown ? shown : "");
  free(shown);
  return text;
}

static json_t *json_value(const char *name, const kv_value *v) {
  if (!v->text) return json_null();
  if (!strcmp(name, "params")) {
    json_t *params = json_loads(v->text, JSON_ALLOW_NUL, NULL);
    if (params) return params;
  }
  if (isnan(v->number)) return json_text(v->text);
  if (v->real) return isinf(v->number) ? json_null() : json_real(v->number);
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

/* --- for people ----------------------------------------------------------- */

enum { SHOW = 47, BYTES = 4 * SHOW + 1 };

/* Returns the width. */
static int show(const kv_value *v, char out[BYTES]) {
  if (!v->text) return kv_text_fit("-", SHOW, out);
  if (!v->real) return kv_text_fit(v->text, SHOW, out);
  return snprintf(out, BYTES, "%.4g", v->number);
}

static int width(const kv_grid *g, int c) {
  char text[BYTES];
  int w = kv_text_fit(g->name[c], SHOW, text);
  for (int r = 0; r < g->rows; r++) {
    int n = show(at(g, r, c), text);
    if (n > w) w = n;
  }
  return w;
}

/* Columns of numbers, shares like 12% and means like 12 ± 3 are aligned
 * right. */
static bool is_number(const kv_grid *g, int c) {
  for (int r = 0; r < g->rows; r++) {
    const char *t = at(g, r, c)->text;
    const char *end = t ? t + strspn(t, "0123456789.e+-") : NULL;
    if (t && isnan(at(g, r, c)->number) &&
        (end == t || (*end && *end != '%' && strncmp(end, " \u00b1", 3))))
      return false;
  }
  return true;
}

static const char *text_at(const kv_grid *g, int r, int c) {
  const char *text = at(g, r, c)->text;
  return text ? text : "-";
}

/* Writes the heading above row r, if it differs from the previous row's: a line
 * per column, after the first one with the column's name. */
static void head(const kv_grid *g, int r, FILE *f) {
  bool same = r > 0;
  for (int c = 0; c < g->headed && same; c++)
    same = !strcmp(text_at(g, r - 1, c), text_at(g, r, c));
  for (int c = 0; c < g->headed && !same; c++) {
    fprintf(f, c ? "%s: " : "\n", g->name[c]);
    kv_text_write(text_at(g, r, c), f);
    putc('\n', f);
  }
}

static void write_table(const kv_grid *g, FILE *f) {
  int *wide = calloc((size_t)g->columns + 1, sizeof *wide);
  if (!wide) {
    kv_tell_short();
    return;
  }
  for (int c = 0; c < g->columns; c++)
    wide[c] = is_number(g, c) ? width(g, c) : -width(g, c);
  for (int r = -1; r < g->rows; r++) {
    if (g->headed && r >= 0) head(g, r, f);
    for (int c = g->headed; c < g->columns; c++) {
      char text[BYTES];
      bool last = c == g->columns - 1;
      if (last && g->headed && r >= 0 && wide[c] < 0) {
        kv_text_write(text_at(g, r, c), f);
        putc('\n', f);
        continue;
      }
      int n =
          r < 0 ? kv_text_fit(g->name[c], SHOW, text) : show(at(g, r, c), text);
      int left = wide[c] > 0 ? wide[c] - n : 0;
      int right = wide[c] < 0 && !last ? -wide[c] - n : 0;
      fprintf(f, "%*s%s%*s%s", left, "", text, right, "", last ? "\n" : "  ");
    }
  }
  free(wide);
}

/* --- LaTeX ---------------------------------------------------------------- */

static void latex_text(const char *t, FILE *f) {
  for (int n; *t; t += n) {
    bool shown;
    char one[5] = "";
    n = kv_text_next(t, &shown);
    memcpy(one, t, (size_t)n);
    if (strchr("&%$#_{}", *t)) putc('\\', f);
    if (!shown) /* byte by byte */
      n = 1, fprintf(f, "\\char92{}x%02X", (unsigned)(unsigned char)*t);
    else if (strchr("~^\\", *t))
      fprintf(f, "\\char%d{}", *t);
    else if (!strcmp(one, "\u00b1"))
      fputs("$\\pm$", f);
    else
      kv_text_write(one, f);
  }
}

static void write_latex(const kv_grid *g, FILE *f) {
  fputs("\\begin{tabular}{", f);
  for (int c = 0; c < g->columns; c++) putc(is_number(g, c) ? 'r' : 'l', f);
  fputs("}\n", f);
  for (int r = -1; r < g->rows; r++)
    for (int c = 0; c < g->columns; c++) {
      const kv_value *v = r < 0 ? NULL : at(g, r, c);
      if (v && v->text && v->real)
        fprintf(f, "%.4g", v->number);
      else
        latex_text(!v ? g->name[c] : v->text ? v->text : "-", f);
      fputs(c < g->columns - 1 ? " & "
            : r < 0            ? " \\\\ \\hline\n"
                               : " \\\\\n",
            f);
    }
  fputs("\\end{tabular}\n", f);
}

void kv_grid_write(const kv_grid *g, kv_grid_format format, FILE *f) {
  static void (*const write[])(const kv_grid *, FILE *) = {
      write_table, write_csv, write_json, write_jsonl, write_latex};
  write[format](g, f);
}
