/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/database/say.h"
#include "analysis/page/page.h"
#include "analysis/tables/grid_write.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void kv_page_count(FILE *f, int n, const char *one) {
  fprintf(f, "%d %s%s", n, one, n == 1 ? "" : "s");
}

int kv_page_variant(const kv_page *p, const char *key) {
  const kv_grid *g = &p->cell;
  int at = kv_grid_column(g, "key"); /* looked up once for thousands of rows */
  for (int r = 0; r < g->rows; r++)
    if (!strcmp(g->value[r * g->columns + at].text, key))
      return p->variants.of[r];
  return -1;
}

/* --- data inside the page ------------------------------------------------- */

/* Percent-encodes all but RFC 3986's unreserved characters and the comma. */
static void percent(const char *t, FILE *f) {
  for (; *t; t++)
    if (isalnum((unsigned char)*t) || strchr("-._~,", *t))
      putc(*t, f);
    else
      fprintf(f, "%%%02X", (unsigned)(unsigned char)*t);
}

/* Larger data files are not in the page, which must be small enough to send. */
enum { MOST_DATA = 100 * 1024 };

/* The text of a data file, to be freed; NULL: too large, or no memory
 * (printed). */
static char *csv_of(const kv_grid *g) {
  size_t size = 0, cells = (size_t)g->rows * (size_t)g->columns;
  char *text = NULL;
  if (cells > MOST_DATA / 2) return NULL; /* each takes at least two bytes */
  FILE *memory = open_memstream(&text, &size);
  if (memory) kv_grid_write(g, KV_CSV, memory);
  bool good = memory && !fclose(memory);
  if (!good) kv_tell_short();
  if (good && size <= MOST_DATA) return text;
  free(text);
  return NULL;
}

static void data_link(const kv_page *p, const char *name, const kv_grid *g) {
  char *text = csv_of(g);
  if (text) {
    fprintf(p->f, " <a download=\"%s.csv\" href=\"data:text/csv;charset=utf-8,",
            name);
    percent(text, p->f);
    fprintf(p->f, "\">Data: %s.csv</a>", name);
  } else {
    fputs(" Data: too large for the page; <code>kvreport export ", p->f);
    kv_text_shell_html(p->path, p->f);
    fputs(" -o data</code> writes them.", p->f);
  }
  free(text);
}

static void caption(const kv_page *p, const char *text, const char *loop,
                    const char *name, const kv_grid *data) {
  fputs("<figcaption>", p->f);
  kv_text_html(text, p->f);
  fputs(loop, p->f);
  if (data) data_link(p, name, data);
  fputs("</figcaption>\n", p->f);
}

void kv_page_caption(const kv_page *p, const char *text, const char *name,
                     const kv_grid *data) {
  caption(p, text,
          " <strong>Open loop:</strong> the recorded queries do not feel the "
          "approximation; this is not task accuracy.",
          name, data);
}

void kv_page_answered(const kv_page *p, const char *text, const char *name,
                      const kv_grid *data) {
  caption(p, text,
          " <strong>Closed loop:</strong> the model went on with the method's "
          "cache.",
          name, data);
}

/* --- tables --------------------------------------------------------------- */

typedef enum kind {
  PLAIN,
  PERCENT,
  TENTH,
  TWICE,
  BYTES,
  SOME,
  SOME_PERCENT,
  SOME_BYTES,
  UP,
  DOWN,
  /* No numbers: */
  SHORT,
  LONG,
  LINE,
  MARK,
  NAME
} kind;

typedef struct column {
  char name[40], title[80]; /* in the grid; on the page */
  kind kind;
  const char *class; /* of its cells; NULL: no column */
} column;
enum { COLUMNS = 64 };

static kind kind_of(const char *name) {
  static const char *const all[] = {
      "",      "percent",      "tenth",      "twice", "bytes",
      "some",  "some-percent", "some-bytes", "up",    "down",
      "short", "long",         "line",       "mark",  "name"};
  int k = 0;
  while (strcmp(all[k], name)) k++;
  return (kind)k;
}

/* Reads the columns of a table; returns how many. */
static int read_columns(const kv_grid *g, const char *text, column *c) {
  int n = 0;
  for (; !text && n < g->columns && n < COLUMNS; n++) {
    c[n] = (column){.kind = n ? PLAIN : LINE};
    snprintf(c[n].name, sizeof c->name, "%s", g->name[n]);
    snprintf(c[n].title, sizeof c->title, "%s", g->name[n]);
  }
  for (; text && *text && n < COLUMNS; n++) {
    char how[16] = "", name[40] = "", title[80] = "";
    c[n] = (column){.kind = PLAIN};
    sscanf(text, "%39[^=;]=%79[^:;]:%15[^;]", name, title, how);
    snprintf(c[n].name, sizeof c->name, "%s", name);
    snprintf(c[n].title, sizeof c->title, "%s", *title ? title : name);
    c[n].kind = kind_of(how);
    text += strcspn(text, ";");
    text += strspn(text, "; ");
  }
  return n;
}

static void bytes(double n, FILE *f) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (fabs(n) >= 999.5 && u < 4) n /= 1024, u++;
  fprintf(f, u ? "%.3g %s" : "%.0f %s", n, unit[u]);
}

static void mark(const kv_grid *g, int row, FILE *f) {
  bool conflict = kv_grid_number(g, row, "conflicts") > 0;
  const char *status = kv_grid_text(g, row, "status");
  if (conflict)
    fputs("<span class=\"no\">conflict</span>", f);
  else if (*status != 'o' && strcmp(status, "fixed"))
    kv_text_html(status, f);
  else if (kv_grid_number(g, row, "confirmed") > 0)
    fputs("<span class=\"yes\">confirmed</span>", f);
  else
    fputs("one run", f);
}

enum { DIGITS = 10 }; /* digits shown of a digest */

/* A specification may break after each parameter. */
static void long_text(const char *t, FILE *f) {
  bool shown;
  for (int n; *t; t += n) {
    char one[5] = "";
    n = kv_text_next(t, &shown);
    memcpy(one, t, (size_t)n);
    kv_text_html(one, f);
    if (*t == ':' || *t == ',') fputs("<wbr>", f);
  }
}

static void short_text(const char *t, FILE *f) {
  char text[4 * DIGITS + 1];
  kv_text_fit(t, DIGITS, text);
  kv_text_html(text, f);
}

/* The line to which a row belongs; -1: none. */
static int line_of(const kv_page *p, const kv_grid *g, int row) {
  char name[200];
  if (g == &p->cell) return p->variants.of[row];
  if (kv_grid_column(g, "key") >= 0)
    return kv_page_variant(p, kv_grid_text(g, row, "key"));
  if (kv_grid_column(g, "method") < 0) return -1;
  snprintf(name, sizeof name, "%s", kv_grid_text(g, row, "method"));
  char *baseline = strstr(name, ", baseline"); /* added by kv_answer_ask */
  if (baseline) *baseline = 0;
  return kv_variants_same(&p->variants, name);
}

static bool has_numbers(const kv_grid *g, const column *c) {
  if (c->kind >= SHORT) return false;
  for (int r = 0; r < g->rows; r++)
    if (isfinite(kv_grid_number(g, r, c->name))) return true;
  return false;
}

/* Numbers are at the right, without a class because most cells are numbers; so
 * are means with errors, which a sorted table has. NULL: no column. */
static const char *class_of(const kv_grid *g, const column *c, bool whole) {
  if (c->kind >= SOME && c->kind <= SOME_BYTES && !has_numbers(g, c))
    return NULL;
  if (c->kind == LONG) return " class=long";
  if (c->kind == SHORT) return " class=mono";
  return whole && c->kind < SHORT ? "" : has_numbers(g, c) ? "" : " class=x";
}

static void number(const column *c, double n, const char *text, FILE *f) {
  if (c->kind == PERCENT || c->kind == SOME_PERCENT)
    fprintf(f, n < .0995 ? "%.2g%%" : "%.0f%%", 100 * n);
  else if (c->kind == TENTH)
    fprintf(f, "%.1f%%", 100 * n);
  else if (c->kind == BYTES || c->kind == SOME_BYTES)
    bytes(n, f);
  else if (c->kind == TWICE)
    fprintf(f, "%.2g", 2 * n);
  else if (floor(n) != n || strchr(text, '.'))
    fprintf(f, "%.4g", n);
  else
    kv_text_html(text, f);
}

static void cell(const kv_page *p, const kv_grid *g, int row, int line,
                 const column *c) {
  const char *text = kv_grid_text(g, row, c->name);
  double n = kv_grid_number(g, row, c->name);
  if (c->kind == LINE && line >= 0)
    kv_look_swatch(kv_look_line(&p->variants, line), p->f);
  if (c->kind == MARK)
    mark(g, row, p->f);
  else if (!*text)
    fputs("\u2013", p->f);
  else if (c->kind == NAME)
    kv_text_html(p->variants.label[line], p->f);
  else if (c->kind == SHORT)
    short_text(text, p->f);
  else if (c->kind == LONG)
    long_text(text, p->f);
  else if (isfinite(n) && c->kind != LINE)
    number(c, n, text, p->f);
  else
    kv_text_html(text, p->f);
}

static void row(const kv_page *p, const kv_grid *g, int r, int n,
                const column *c) {
  int line = line_of(p, g, r);
  if (line >= 0)
    fprintf(p->f, "<tr class=v%d>", kv_look_line(&p->variants, line).line);
  else
    fputs("<tr>", p->f);
  for (int i = 0; i < n; i++) {
    if (!c[i].class) continue;
    fprintf(p->f, "<td%s", c[i].class);
    if (c[i].kind == NAME) {
      fputs(" title=\"", p->f);
      kv_text_html(kv_grid_text(g, r, "spec"), p->f);
      fputs("\"", p->f);
    }
    fputs(">", p->f);
    cell(p, g, r, line, c + i);
  }
  fputs("\n", p->f);
}

/* HTML allows omitting the ends of cells and rows: a page has 100,000. */
void kv_page_table(const kv_page *p, const kv_grid *g, const char *label,
                   const char *columns) {
  static const char *const sorted[] = {" aria-sort=ascending",
                                       " aria-sort=descending"};
  column c[COLUMNS];
  bool whole = false;
  int n = read_columns(g, columns, c);
  for (int i = 0; i < n; i++)
    whole = whole || c[i].kind == UP || c[i].kind == DOWN;
  fprintf(p->f,
          "<div class=\"scroll%s\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"",
          whole ? " whole" : "");
  kv_text_html(label, p->f);
  fputs("\"><table><thead><tr>", p->f);
  for (int i = 0; i < n; i++) {
    bool by = c[i].kind == UP || c[i].kind == DOWN;
    c[i].class = class_of(g, c + i, whole);
    if (!c[i].class) continue;
    fprintf(p->f, "<th scope=col%s%s>", c[i].class,
            by ? sorted[c[i].kind == DOWN] : "");
    kv_text_html(c[i].title, p->f);
  }
  fputs("<tbody>\n", p->f);
  for (int r = 0; r < g->rows; r++) row(p, g, r, n, c);
  fputs("</table></div>\n", p->f);
}
