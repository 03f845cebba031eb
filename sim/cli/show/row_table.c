/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as a table for people, at most 120 characters wide: sim/cli/show/rows.h.
 * Lines are formatted when a row is added, since its result may be gone at the
 * end, and printed when widths are known, grouped by trace in the order of the
 * traces.
 *
 * The narrow table has seven columns: tokens kept, bytes held, and four
 * measures, or two if no trace has answers. Both tables have columns for prompt
 * rows if some prompt was read in chunks (prefill=N). The narrow table shows a
 * budget once, in the trace's heading, or after each method if budgets differ.
 */
#include "ref/ground/err.h"
#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "ref/lane/method.h"
#include "sim/ask/budget.h"
#include "sim/cli/show/row_label.h"
#include "sim/cli/show/rows.h"
#include "sim/replay/measure/result.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of the layouts of one row, since the table outlives the result. */
typedef struct kv_row_layouts {
  int n;                /* 0: none were requested */
  kv_layout_result *of; /* [n] */
} kv_row_layouts;

/* Columns in order. ASKED is the budget as typed, BUDGET its entries, KEPT the
 * mean entries per lane at the end. END, MEAN, READ and SCAN are bytes; DENSE,
 * NEEDLE, HELD and ERROR are relative to dense; WORST has the unit of the
 * attention output; LSE and KL are nats; JOURNAL is the first digits of a
 * digest. For rows of a prompt that is read in chunks (prefill=N), PROMPT is
 * output error, PROMPT_MASS the exact attention mass of what they attend to. */
typedef enum kv_row_column {
  KV_ROW_ASKED,
  KV_ROW_BUDGET,
  KV_ROW_KEPT,
  KV_ROW_END,
  KV_ROW_MEAN,
  KV_ROW_DENSE,
  KV_ROW_READ,
  KV_ROW_SCAN,
  KV_ROW_NEEDLE,
  KV_ROW_HELD,  /* needle_kept */
  KV_ROW_WORST, /* output_abs, max */
  KV_ROW_LSE,
  KV_ROW_KL,
  KV_ROW_ERROR,
  KV_ROW_PROMPT,
  KV_ROW_PROMPT_MASS,
  KV_ROW_JOURNAL,
  KV_ROW_COLUMNS
} kv_row_column;

enum { KV_ROW_CELL = 16 }; /* bytes of a cell with its NUL */

typedef struct kv_row_line {
  kv_row_label label;
  char trace[4 * 256 + 64]; /* its name, and what methods see as its prompt
                               unless it is the recorded one */
  char cell[KV_ROW_COLUMNS][KV_ROW_CELL]; /* "-" if there is no number */
  char note[640]; /* "" or a remark, in one line without a period */
  char list[256]; /* "" or the budgets of layers, as far as they fit */
  kv_row_layouts layouts;
  const char *ended; /* "refused", "failed": no numbers; else NULL */
} kv_row_line;

/* Copies the layouts of r. KV_RESOURCE: memory. */
static kv_rc row_layouts_take(const kv_result *r, kv_row_layouts *out,
                              kv_err *e) {
  size_t n = (size_t)r->n_layouts;
  *out = (kv_row_layouts){0};
  if (!n) return KV_OK;
  out->of = kv_zalloc(n, sizeof *out->of);
  if (!out->of) return kv_no_memory(e, "the table", n * sizeof *out->of);
  out->n = r->n_layouts;
  memcpy(out->of, r->layout, n * sizeof *out->of);
  for (int i = 0; i < out->n; i++) out->of[i].step = NULL;
  return KV_OK;
}

static void row_layouts_free(kv_row_layouts *l) {
  free(l->of);
  *l = (kv_row_layouts){0};
}

/* Prints the column names of the layouts. label and asked: widths of the
 * table's columns `method` and `asked`, in characters. The caller checks
 * ferror(out). */
static void row_layouts_head(FILE *out, int label, int asked) {
  fprintf(out, "%-*s  %*s  %-16s %8s %8s %8s %8s %8s %8s\n", label, "layouts",
          asked, "asked", "layout", "pages", "end", "mean", "peak", "slack",
          "freed");
}

/* The share of vacated bytes that became free; "-" if none were vacated. */
static void share(const kv_layout_result *l, char out[KV_NUMBER]) {
  if (l->vacated)
    snprintf(out, KV_NUMBER, "%.1f%%",
             100 * (double)l->freed / (double)l->vacated);
  else
    strcpy(out, "-");
}

static void print(FILE *out, const kv_layout_result *l) {
  char end[KV_NUMBER], mean[KV_NUMBER], peak[KV_NUMBER], slack[KV_NUMBER],
      freed[KV_NUMBER];
  share(l, freed);
  fprintf(out, "%-16s %8" PRId64 " %8s %8s %8s %8s %8s\n", l->name,
          l->pages_end, kv_number_bytes((double)l->end, end),
          kv_number_bytes(l->mean, mean),
          kv_number_bytes((double)l->peak, peak),
          kv_number_bytes((double)l->slack_end, slack), freed);
}

/* A second line for a layout with page tables, under its name. */
static void print_tables(FILE *out, int indent,
                         const kv_layout_table_result *t) {
  char unused[KV_NUMBER], peak[KV_NUMBER];
  fprintf(out,
          "%*s  unused %s, at most %s; moved %" PRId64
          "; table entries %" PRId64 ", list operations %" PRId64 "\n",
          indent, "", kv_number_bytes((double)t->unused_end, unused),
          kv_number_bytes((double)t->unused_peak, peak), t->moved, t->entries,
          t->operations);
}

/* The same for regular indices: loads per decode step and lane, and what the
 * lanes hold as a share of as many lanes of the longest's length. */
static void print_regular(FILE *out, int indent, int64_t steps,
                          const kv_layout_regular_result *g) {
  char moved[KV_NUMBER], mask[KV_NUMBER];
  double loads = steps ? (double)g->loads / (double)(steps * g->lanes) : 0;
  double full = (double)g->lanes * (double)g->fullest;
  fprintf(out,
          "%*s  loads %.1f tokens a lane and step; %" PRId64
          " rewrites move %s; masks %s; utilisation %.1f%%",
          indent, "", loads, g->rewrites,
          kv_number_bytes((double)g->moved, moved),
          kv_number_bytes((double)g->mask_end, mask),
          full > 0 ? 100 * (double)g->kept / full : 0);
  if (g->break_even >= 0)
    fprintf(out, "; paid after %" PRId64 " steps", g->break_even);
  fputc('\n', out);
}

static void row_layouts_print(FILE *out, int label, const char *method,
                              int asked, const char *target,
                              const kv_row_layouts *l) {
  if ((int)strlen(method) > label) {
    fprintf(out, "%s\n", method);
    method = "";
  }
  for (int i = 0; i < l->n; i++) {
    fprintf(out, "%-*s  %*s  ", label, i ? "" : method, asked, i ? "" : target);
    print(out, &l->of[i]);
    if (l->of[i].tables.there)
      print_tables(out, label + 2 + asked + 2, &l->of[i].tables);
    if (l->of[i].regular.there)
      print_regular(out, label + 2 + asked + 2, l->of[i].n_steps - 1,
                    &l->of[i].regular);
  }
}

/* --- numbers ------------------------------------------------------------- */

static void share_cell(double x, char out[KV_ROW_CELL]) {
  if (!isfinite(x)) {
    strcpy(out, "-");
  } else if (x == 0) {
    strcpy(out, "0");
  } else if (fabs(x) < 0.001) {
    snprintf(out, KV_ROW_CELL, "%.1e", x);
  } else {
    snprintf(out, KV_ROW_CELL, fabs(x) < 100 ? "%.4f" : "%.3g", x);
  }
}

static void line_share(const kv_stat *s, double x, char out[KV_ROW_CELL]) {
  share_cell(s->count ? x : (double)NAN, out);
}

static void mean(const kv_stat *s, char out[KV_ROW_CELL]) {
  line_share(s, s->mean, out);
}

/* Nats, to three digits; other formats have all digits. */
static void nats(const kv_stat *s, char out[KV_ROW_CELL]) {
  double x = s->mean;
  if (s->count == 0 || !isfinite(x))
    strcpy(out, "-");
  else if (x == 0)
    strcpy(out, "0");
  else
    snprintf(out, KV_ROW_CELL,
             fabs(x) < 0.0005 ? "%.0e"
             : fabs(x) < 10   ? "%.3f"
                              : "%.3g",
             x);
}

static void bytes(double x, char out[KV_ROW_CELL]) {
  char text[KV_NUMBER];
  if (!isfinite(x)) x = 0;
  snprintf(out, KV_ROW_CELL, "%.15s", kv_number_bytes(x, text));
}

static void asked(const kv_result *r, kv_row_line *l) {
  snprintf(l->cell[KV_ROW_ASKED], KV_ROW_CELL, "%.15s",
           r->target[0] ? r->target : "-");
  if (r->budget >= 0) {
    snprintf(l->cell[KV_ROW_BUDGET], KV_ROW_CELL, "%d", r->budget);
  } else {
    strcpy(l->cell[KV_ROW_BUDGET], "-");
  }
}

static void numbers(const kv_result *r, kv_row_line *l) {
  const kv_totals *t = &r->totals;
  const kv_stat *s = r->stat;
  char hex[65];
  snprintf(l->cell[KV_ROW_KEPT], KV_ROW_CELL, "%.1f", t->kept);
  bytes((double)kv_bytes_total(&t->end), l->cell[KV_ROW_END]);
  bytes(t->mean, l->cell[KV_ROW_MEAN]);
  if (isfinite(t->kr)) {
    snprintf(l->cell[KV_ROW_DENSE], KV_ROW_CELL, "%.1f%%", 100 * t->kr);
  } else {
    strcpy(l->cell[KV_ROW_DENSE], "-");
  }
  bytes(t->read, l->cell[KV_ROW_READ]);
  if (isnan(t->scanned)) {
    strcpy(l->cell[KV_ROW_SCAN], "-");
  } else {
    bytes(t->scanned, l->cell[KV_ROW_SCAN]);
  }
  line_share(&s[KV_NEEDLE_MASS], kv_needle_share(s), l->cell[KV_ROW_NEEDLE]);
  share_cell(t->needle_kept, l->cell[KV_ROW_HELD]);
  line_share(&s[KV_OUTPUT_ABS], s[KV_OUTPUT_ABS].max, l->cell[KV_ROW_WORST]);
  nats(&s[KV_LSE_ERROR], l->cell[KV_ROW_LSE]);
  nats(&s[KV_KL], l->cell[KV_ROW_KL]);
  mean(&s[KV_OUTPUT_ERROR], l->cell[KV_ROW_ERROR]);
  mean(&s[KV_PROMPT_ERROR], l->cell[KV_ROW_PROMPT]);
  mean(&s[KV_PROMPT_MASS], l->cell[KV_ROW_PROMPT_MASS]);
  kv_digest_hex(&r->journal, hex);
  snprintf(l->cell[KV_ROW_JOURNAL], KV_ROW_CELL, "%.8s", hex);
}

/* --- words --------------------------------------------------------------- */

/* For a list of budgets: shows its name as the budget, and the list below. */
static void listed(const kv_result *r, kv_row_line *l) {
  const char *list = r->spec ? strstr(r->spec, ":budget=") : NULL;
  if (!list || strncmp(r->target, KV_LAYERS, strlen(KV_LAYERS))) return;
  list += strlen(":budget=");
  size_t n = strcspn(list, ":"), room = sizeof l->list - 4;
  snprintf(l->list, sizeof l->list, "%.*s%s", (int)(n < room ? n : room), list,
           n < room ? "" : "...");
}

/* The heading of a row's group: the trace and what is observed of it. */
static void seen(const kv_result *r, const char *name, char *out, size_t room) {
  kv_plain(name, 4 * sizeof r->trace, out);
  size_t n = strlen(out);
  if (r->observe)
    snprintf(out + n, room - n, ", --observe %s", kv_observe_names[r->observe]);
}

/* Adds a remark if the method declares bytes besides its entries: they are in
 * the totals, but declared, not counted. */
static void declared(const kv_result *r, kv_row_line *l) {
  const kv_method *m = kv_method_named(r->method);
  int64_t said = r->totals.end.columns + r->totals.end.side;
  char text[KV_NUMBER];
  if (!m || !m->declares || said == 0) return;
  kv_number_bytes((double)said, text);
  snprintf(l->note, sizeof l->note,
           "declares %s of its bytes at the end (columns, meta), which are not "
           "measured",
           text);
}

/* Adds a remark if the method reads a file: its bytes serve all requests and
 * are in none of the numbers. */
static void lent(const kv_result *r, kv_row_line *l) {
  size_t n = strlen(l->note);
  char text[KV_NUMBER];
  if (r->totals.asset <= 0) return;
  kv_number_bytes((double)r->totals.asset, text);
  snprintf(l->note + n, sizeof l->note - n,
           "%sreads a file of %s bytes, shared by all requests and not counted",
           n ? "; " : "", text);
}

/* Adds a remark if some of the bytes read came from host memory. */
static void fetched(const kv_result *r, kv_row_line *l) {
  size_t n = strlen(l->note);
  int steps = r->n_tokens - r->prompt_len;
  char text[KV_NUMBER];
  if (r->totals.fetched <= 0) return;
  kv_number_bytes((double)r->totals.fetched / steps, text);
  snprintf(l->note + n, sizeof l->note - n,
           "%sfetches %s bytes a step from host memory, which are part of the "
           "bytes read",
           n ? "; " : "", text);
}

/* Why the cell has no numbers, with its budget. */
static void ended(const kv_result *r, kv_row_line *l) {
  char text[sizeof l->note];
  snprintf(text, sizeof text, "%s at %s: %s", kv_status_names[r->status],
           r->target[0] ? r->target : "no budget", r->reason);
  kv_plain(text, sizeof l->note, l->note);
  l->ended = kv_status_names[r->status];
}

/* Fills *l from a row, complete or not. Texts are safe for a terminal; long
 * ones are cut. Free with row_line_free, also after a failure. KV_RESOURCE: no
 * memory. */
static kv_rc row_line_make(const kv_result *r, kv_row_line *l, kv_err *e) {
  memset(l, 0, sizeof *l);
  kv_rc rc = kv_row_label_make(r, &l->label, e);
  if (rc) return rc;
  seen(r, kv_result_name(r), l->trace, sizeof l->trace);
  asked(r, l);
  listed(r, l);
  if (kv_result_ran(r)) {
    numbers(r, l);
    declared(r, l);
    lent(r, l);
    fetched(r, l);
    return row_layouts_take(r, &l->layouts, e);
  }
  ended(r, l);
  for (kv_row_column c = KV_ROW_KEPT; c < KV_ROW_COLUMNS; c++)
    strcpy(l->cell[c], "-");
  return KV_OK;
}

static void row_line_free(kv_row_line *l) {
  kv_row_label_free(&l->label);
  row_layouts_free(&l->layouts);
}

/* --- table --------------------------------------------------------------- */

enum { WIDTH = 120, LABEL_MOST = 30, NAME_MOST = 48, NAME = 1024 };

/* Headings of the wide table, and of the narrow one; NULL: no column. */
static const struct {
  const char *wide, *narrow;
} heads[KV_ROW_COLUMNS] = {[KV_ROW_ASKED] = {"asked", NULL},
                           [KV_ROW_BUDGET] = {"budget", NULL},
                           [KV_ROW_KEPT] = {"kept", "tokens kept"},
                           [KV_ROW_END] = {"end", NULL},
                           [KV_ROW_MEAN] = {"mean", NULL},
                           [KV_ROW_DENSE] = {"dense", "bytes held"},
                           [KV_ROW_READ] = {"read", NULL},
                           [KV_ROW_SCAN] = {"scan", NULL},
                           [KV_ROW_NEEDLE] = {"needle", "on the answer"},
                           [KV_ROW_HELD] = {"held", "answer kept"},
                           [KV_ROW_WORST] = {"worst", "worst error"},
                           [KV_ROW_LSE] = {"lse", NULL},
                           [KV_ROW_KL] = {"kl", NULL},
                           [KV_ROW_ERROR] = {"error", "output error"},
                           [KV_ROW_PROMPT] = {"prompt", "prompt error"},
                           [KV_ROW_PROMPT_MASS] = {"p mass", "prompt mass"},
                           [KV_ROW_JOURNAL] = {"journal", NULL}};

typedef struct form {
  FILE *out;
  bool colour, wide;
  bool shown[KV_ROW_COLUMNS]; /* found by measure */
  kv_row_column last;         /* the last column shown */
  bool one_budget;            /* all rows with a budget have the same */
  int n, room;
  kv_row_line *lines;
  int width[KV_ROW_COLUMNS], label; /* in characters */
  char backend[16];                 /* of the first row */
} form;

static kv_rc row(void *self, const kv_result *r, kv_err *e) {
  form *f = self;
  if (f->n == f->room) {
    int room = f->room ? 2 * f->room : 64;
    kv_row_line *grown = realloc(f->lines, (size_t)room * sizeof *grown);
    if (grown == NULL) {
      return kv_no_memory(e, "the table", (size_t)room * sizeof *grown);
    }
    f->lines = grown;
    f->room = room;
  }
  kv_row_line *l = &f->lines[f->n];
  kv_rc rc = row_line_make(r, l, e);
  if (!rc && f->n++ == 0)
    snprintf(f->backend, sizeof f->backend, "%s", r->backend ? r->backend : "");
  return rc;
}

static const char *label(const kv_row_line *l) {
  return l->label.ambiguous ? l->label.full : l->label.brief;
}

/* The budget as typed, or else its entries; NULL: the method has no budget. */
static const char *budget_of(const kv_row_line *l) {
  if (strcmp(l->cell[KV_ROW_ASKED], "-")) return l->cell[KV_ROW_ASKED];
  return strcmp(l->cell[KV_ROW_BUDGET], "-") ? l->cell[KV_ROW_BUDGET] : NULL;
}

/* The method; in the narrow table with the budget if budgets differ. */
static const char *name(const form *f, const kv_row_line *l, char out[NAME]) {
  const char *budget = f->wide || f->one_budget ? NULL : budget_of(l);
  if (!budget) return label(l);
  snprintf(out, NAME, "%.*s at %s", NAME - KV_ROW_CELL - 8, label(l), budget);
  return out;
}

/* Two lines with the same brief label show all parameters. */
static void disambiguate(form *f) {
  for (int i = 0; i < f->n; i++) {
    for (int j = 0; j < i; j++) {
      kv_row_line *a = &f->lines[i], *b = &f->lines[j];
      if (strcmp(a->trace, b->trace) == 0 &&
          strcmp(a->cell[KV_ROW_ASKED], b->cell[KV_ROW_ASKED]) == 0 &&
          strcmp(a->cell[KV_ROW_BUDGET], b->cell[KV_ROW_BUDGET]) == 0 &&
          strcmp(a->label.brief, b->label.brief) == 0 &&
          strcmp(a->label.full, b->label.full) != 0) {
        a->label.ambiguous = b->label.ambiguous = true;
      }
    }
  }
}

static int larger(int a, size_t b) { return (int)b > a ? (int)b : a; }

/* A budget of a row that has one, or NULL. *differ: there are several. */
static const char *budget_of_all(const form *f, bool *differ) {
  const char *one = NULL;
  *differ = false;
  for (int i = 0; i < f->n; i++) {
    const char *own = budget_of(&f->lines[i]);
    *differ = *differ || (one && own && strcmp(one, own));
    if (own) one = own;
  }
  return one;
}

/* Has any row a number in the column? */
static bool filled(const form *f, kv_row_column c) {
  bool any = false;
  for (int i = 0; i < f->n && !any; i++)
    any = strcmp(f->lines[i].cell[c], "-") != 0;
  return any;
}

static bool of_prompt(kv_row_column c) {
  return c == KV_ROW_PROMPT || c == KV_ROW_PROMPT_MASS;
}

/* Chooses the columns to print: no answer columns in the narrow table if no
 * trace has answers, no prompt columns if every prompt was read whole. */
static void pick(form *f) {
  bool differ;
  for (kv_row_column c = 0; c < KV_ROW_COLUMNS; c++) {
    bool needs =
        of_prompt(c) || (!f->wide && (c == KV_ROW_NEEDLE || c == KV_ROW_HELD));
    f->shown[c] = (f->wide || heads[c].narrow) && (!needs || filled(f, c));
    if (f->shown[c]) f->last = c;
  }
  budget_of_all(f, &differ);
  f->one_budget = !differ;
}

static const char *heading(const form *f, kv_row_column c) {
  return f->wide || !heads[c].narrow ? heads[c].wide : heads[c].narrow;
}

/* The text of a line in a column; the last column says how a cell ended. */
static const char *cell(const form *f, const kv_row_line *l, kv_row_column c) {
  return l->ended && c == f->last ? l->ended : l->cell[c];
}

static void measure(form *f) {
  char text[NAME];
  f->label = (int)strlen("method");
  for (kv_row_column c = 0; c < KV_ROW_COLUMNS; c++)
    f->width[c] = (int)strlen(heading(f, c));
  for (int i = 0; i < f->n; i++) {
    size_t n = strlen(name(f, &f->lines[i], text));
    if (n <= (f->wide ? LABEL_MOST : NAME_MOST)) f->label = larger(f->label, n);
    for (kv_row_column c = 0; c < KV_ROW_COLUMNS; c++)
      f->width[c] = larger(f->width[c], strlen(cell(f, &f->lines[i], c)));
  }
}

static int gap(const form *f) {
  int total = f->label;
  for (kv_row_column c = 0; c < KV_ROW_COLUMNS; c++)
    if (f->shown[c]) total += f->width[c] + 2;
  return total <= WIDTH ? 2 : 1;
}

static void attribute(const form *f, const char *code) {
  if (f->colour) fprintf(f->out, "\033[%sm", code);
}

static void table_print(const form *f, const char *first,
                        const kv_row_line *l) {
  if ((int)strlen(first) > f->label) {
    fprintf(f->out, "%s\n", first);
    first = "";
  }
  fprintf(f->out, "%-*s", f->label, first);
  for (kv_row_column c = 0; c < KV_ROW_COLUMNS; c++)
    if (f->shown[c])
      fprintf(f->out, "%*s%*s", gap(f), "", f->width[c],
              l ? cell(f, l, c) : heading(f, c));
  fputc('\n', f->out);
}

static void head(const form *f, const char *trace) {
  bool differ;
  const char *budget = budget_of_all(f, &differ);
  attribute(f, "1");
  fputs(trace, f->out);
  if (!f->wide && budget && !differ) fprintf(f->out, ", at %s", budget);
  fputc('\n', f->out);
  attribute(f, "0");
  attribute(f, "2");
  table_print(f, "method", NULL);
  attribute(f, "0");
}

/* True if an earlier line of the trace has already shown the same list. */
static bool told(const form *f, int i, const char *trace) {
  const kv_row_line *l = &f->lines[i];
  for (int j = 0; j < i; j++)
    if (!strcmp(f->lines[j].trace, trace) &&
        !strcmp(f->lines[j].cell[KV_ROW_ASKED], l->cell[KV_ROW_ASKED]) &&
        f->lines[j].list[0])
      return true;
  return false;
}

/* Prints the layouts of each cell below the trace's rows, if there are any. */
static void group_layouts(const form *f, const char *trace) {
  bool first = true;
  for (int i = 0; i < f->n; i++) {
    const kv_row_line *l = &f->lines[i];
    if (strcmp(l->trace, trace) || !l->layouts.n) continue;
    attribute(f, "2");
    if (first) row_layouts_head(f->out, f->label, f->width[0]);
    attribute(f, "0");
    row_layouts_print(f->out, f->label, label(l), f->width[0],
                      l->cell[KV_ROW_ASKED], &l->layouts);
    first = false;
  }
}

static void group(const form *f, const char *trace) {
  char text[NAME];
  head(f, trace);
  for (int i = 0; i < f->n; i++) {
    const kv_row_line *l = &f->lines[i];
    if (strcmp(l->trace, trace)) continue;
    if (l->ended) attribute(f, "31");
    table_print(f, name(f, l, text), l);
    if (l->ended) attribute(f, "0");
  }
  for (int i = 0; i < f->n; i++) {
    const kv_row_line *l = &f->lines[i];
    if (strcmp(l->trace, trace) || !l->note[0]) continue;
    fprintf(f->out, "  %s ", label(l));
    kv_put_plain(f->out, l->note);
    fputc('\n', f->out);
  }
  for (int i = 0; i < f->n; i++) {
    const kv_row_line *l = &f->lines[i];
    if (strcmp(l->trace, trace) || !l->list[0] || told(f, i, trace)) continue;
    fprintf(f->out, "  %s, entries by layer: %s\n", l->cell[KV_ROW_ASKED],
            l->list);
  }
  group_layouts(f, trace);
  fputc('\n', f->out);
}

static const char wide_words[] =
    "end, mean, read: bytes at the end, averaged over steps, read per step (K "
    "= 1024); dense: mean as a share of dense's;\n"
    "scan: bytes looked at per step to choose what is read;\n"
    "needle: attention left on the needles, dense is 1; held: dense's "
    "attention on the needles stored and read, a share;\n"
    "worst: the largest error of an element of the output; it ranks methods "
    "best;\n"
    "lse: log-sum-exp of stored entries minus all; kl: of the attention;\n"
    "error: relative error of the output; no mean ranks methods as a "
    "model's answers do (README.md);\n";

static const char wide_prompt_words[] =
    "prompt, p mass: output error and exact attention mass of prompt rows, "
    "when the prompt is read in chunks (prefill=N);\n";

/* Prints explanations of the columns shown. */
static void words(const form *f) {
  if (f->wide) {
    fputs(wide_words, f->out);
    if (f->shown[KV_ROW_PROMPT]) fputs(wide_prompt_words, f->out);
    return;
  }
  fputs("tokens kept: in the cache after the last step, per lane (layer and KV "
        "head);\nbytes held: cache size as a share of dense's, averaged over "
        "steps;\n",
        f->out);
  if (f->shown[KV_ROW_NEEDLE])
    fputs("on the answer: attention left on the answer's tokens, dense is 1;\n"
          "answer kept: of dense's attention on them, the share whose tokens "
          "are stored and read;\n",
          f->out);
  fputs("worst error: the largest of an element of the attention output; it "
        "ranks methods best;\noutput error: relative to dense's; no mean ranks "
        "methods as a model's answers do;\n",
        f->out);
  if (f->shown[KV_ROW_PROMPT])
    fputs("prompt error, prompt mass: of prompt rows after the first chunk "
          "(prefill=N): output error, and the exact\n"
          "attention on what they attend to;\n",
          f->out);
  fputs("--wide adds bytes read and scanned, LSE error, KL divergence, "
        "digests;\n",
        f->out);
}

/* What a line holds, in percent of dense; -1: unknown, or it has no budget. */
static double held(const kv_row_line *l) {
  const char *cell = l->cell[KV_ROW_DENSE];
  return budget_of(l) && !l->ended && *cell != '-' ? atof(cell) : -1;
}

/* If one row holds over a tenth more than another with the same budget, they
 * are no comparison: prints the shares and a budget that compares fairly. */
static void unequal(const form *f) {
  const kv_row_line *least = NULL;
  double more = 1.1, most = 0;
  for (int i = 0; i < f->n; i++)
    for (int j = 0; j < f->n; j++) {
      const kv_row_line *a = &f->lines[i], *b = &f->lines[j];
      if (strcmp(a->trace, b->trace) ||
          strcmp(a->cell[KV_ROW_ASKED], b->cell[KV_ROW_ASKED]) ||
          held(a) <= 0 || held(b) <= more * held(a))
        continue;
      least = a;
      most = held(b);
      more = most / held(a);
    }
  if (!least) return;
  const char *asked = least->cell[KV_ROW_ASKED];
  bool share = strchr(asked, '%') && !strchr(asked, ':');
  fprintf(f->out, "unequal bytes, %.1f%% to %.1f%%: to compare, use ",
          held(least), most);
  if (share)
    fprintf(f->out, "-b mean:%s;\n", asked);
  else
    fprintf(f->out, "-b mean:%.0f%%;\n", held(least) < 1 ? 1 : held(least));
}

static void end(void *self) {
  form *f = self;
  if (f->n == 0) return;
  disambiguate(f);
  pick(f);
  measure(f);
  for (int i = 0; i < f->n; i++) {
    bool first = true;
    for (int j = 0; j < i && first; j++) {
      first = strcmp(f->lines[i].trace, f->lines[j].trace) != 0;
    }
    if (first) group(f, f->lines[i].trace);
  }
  attribute(f, "2");
  unequal(f);
  words(f);
  fputs("open loop: recorded queries do not feel the approximation", f->out);
  if (f->backend[0]) fprintf(f->out, "; backend %s", f->backend);
  fputc('\n', f->out);
  attribute(f, "0");
}

static kv_rc begin(void *self, FILE *out, bool colour, kv_err *e) {
  form *f = self;
  (void)e;
  f->out = out;
  f->colour = colour;
  return KV_OK;
}

static kv_rc begin_wide(void *self, FILE *out, bool colour, kv_err *e) {
  ((form *)self)->wide = true;
  return begin(self, out, colour, e);
}

static void release(void *self) {
  form *f = self;
  for (int i = 0; i < f->n; i++) row_line_free(&f->lines[i]);
  free(f->lines);
}

const kv_row_form kv_row_form_table = {sizeof(form), begin, row, end, release};
const kv_row_form kv_row_form_wide = {sizeof(form), begin_wide, row, end,
                                      release};
