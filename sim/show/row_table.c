/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as a table for people, at most 120 columns: sim/show/rows.h. Lines are
 * kept until the end, when widths are known, and grouped by trace in the
 * order in which traces came. Labels are made in row_label.c. Of the measures
 * needle comes first, then LSE error and KL: so they were seen to rank right
 * answers, which output error does not (README.md).
 */
#include "sim/show/row_label.h"
#include "sim/show/row_layout.h"
#include "sim/show/rows.h"

#include "ref/lane/method.h"
#include "sim/spec/budget.h"
#include "sim/text/number.h"
#include "traces/text/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 120, CELL = 16, LABEL_MOST = 30, COLUMNS = 14 };

static const char *const heads[COLUMNS] = {
    "asked", "budget", "kept", "end", "mean",  "dense", "read",
    "scan",  "needle", "lse",  "kl",  "error", "p95",   "journal"};

typedef struct line {
  kv_row_label label;
  char trace[4 * 256 + 64]; /* and what methods see of it */
  char cell[COLUMNS][CELL];
  char note[640]; /* "" or a remark below the table */
  char list[256]; /* "" or the budgets of the layers, as far as they fit */
  kv_row_layouts layouts; /* printed below the trace's rows */
  bool empty;             /* the cell has no numbers */
} line;

typedef struct form {
  FILE *out;
  bool colour;
  int n, room;
  line *lines;
  int width[COLUMNS], label; /* widths in columns */
  char backend[16];          /* of the first row */
} form;

static void share(const kv_stat *s, double x, char out[CELL]) {
  if (s->count == 0 || !isfinite(x)) {
    strcpy(out, "-");
  } else if (x == 0) {
    strcpy(out, "0");
  } else if (fabs(x) < 0.001) {
    snprintf(out, CELL, "%.1e", x);
  } else {
    snprintf(out, CELL, fabs(x) < 100 ? "%.4f" : "%.3g", x);
  }
}

/* Nats, to three digits: what they rank by is in the other formats. */
static void nats(const kv_stat *s, char out[CELL]) {
  double x = s->mean;
  if (s->count == 0 || !isfinite(x))
    strcpy(out, "-");
  else if (x == 0)
    strcpy(out, "0");
  else
    snprintf(out, CELL,
             fabs(x) < 0.0005 ? "%.0e"
             : fabs(x) < 10   ? "%.3f"
                              : "%.3g",
             x);
}

static void bytes(double x, char out[CELL]) {
  char text[KV_NUMBER];
  if (!isfinite(x)) x = 0;
  snprintf(out, CELL, "%.15s", kv_number_bytes(x, text));
}

static void asked(const kv_result *r, line *l) {
  snprintf(l->cell[0], CELL, "%.15s", r->target[0] ? r->target : "-");
  if (r->budget >= 0) {
    snprintf(l->cell[1], CELL, "%d", r->budget);
  } else {
    strcpy(l->cell[1], "-");
  }
}

static void numbers(const kv_result *r, line *l) {
  const kv_totals *t = &r->totals;
  const kv_stat *s = r->stat;
  char hex[65];
  snprintf(l->cell[2], CELL, "%.1f", t->kept);
  bytes((double)kv_bytes_total(&t->end), l->cell[3]);
  bytes(t->mean, l->cell[4]);
  if (isfinite(t->kr)) {
    snprintf(l->cell[5], CELL, "%.1f%%", 100 * t->kr);
  } else {
    strcpy(l->cell[5], "-");
  }
  bytes(t->read, l->cell[6]);
  if (isnan(t->scanned)) {
    strcpy(l->cell[7], "-");
  } else {
    bytes(t->scanned, l->cell[7]);
  }
  share(&s[KV_NEEDLE_MASS], kv_needle_share(s), l->cell[8]);
  nats(&s[KV_LSE_ERROR], l->cell[9]);
  nats(&s[KV_KL], l->cell[10]);
  share(&s[KV_OUTPUT_ERROR], s[KV_OUTPUT_ERROR].mean, l->cell[11]);
  share(&s[KV_OUTPUT_ERROR], s[KV_OUTPUT_ERROR].p95, l->cell[12]);
  kv_digest_hex(&r->journal, hex);
  snprintf(l->cell[13], CELL, "%.8s", hex);
}

/* Adds a remark if the method declares bytes beside its entries: they are in
 * the totals, but they are declared, not counted. */
static void declared(const kv_result *r, line *l) {
  const kv_method *m = kv_method_named(r->method);
  int64_t said = r->totals.end.columns + r->totals.end.side;
  char text[CELL];
  if (!m || !m->declares || said == 0) return;
  bytes((double)said, text);
  snprintf(l->note, sizeof l->note,
           "declares %s of its bytes at the end (columns, meta): taken on "
           "trust, not measured",
           text);
}

/* Adds a remark if the method reads a file: what it holds of it serves all
 * requests, and is in none of the numbers. */
static void lent(const kv_result *r, line *l) {
  size_t n = strlen(l->note);
  char text[CELL];
  if (r->totals.asset <= 0) return;
  bytes((double)r->totals.asset, text);
  snprintf(l->note + n, sizeof l->note - n,
           "%sis lent %s bytes of a file, once for all requests: they are in "
           "none of the numbers",
           n ? "; " : "", text);
}

/* Adds a remark if a part of what was read came from the host's memory. */
static void fetched(const kv_result *r, line *l) {
  size_t n = strlen(l->note);
  int steps = r->n_tokens - r->prompt_len;
  char text[CELL];
  if (r->totals.fetched <= 0) return;
  bytes((double)r->totals.fetched / steps, text);
  snprintf(l->note + n, sizeof l->note - n,
           "%sfetches %s bytes a step from the host's memory: they are a part "
           "of what is read",
           n ? "; " : "", text);
}

/* A row with a list of budgets: shows the list's name as what was asked, and
 * the list below. */
static void listed(const kv_result *r, line *l) {
  const char *list = r->spec ? strstr(r->spec, ":budget=") : NULL;
  if (!list || strncmp(r->target, KV_LAYERS, strlen(KV_LAYERS))) return;
  list += strlen(":budget=");
  size_t n = strcspn(list, ":"), room = sizeof l->list - 4;
  snprintf(l->list, sizeof l->list, "%.*s%s", (int)(n < room ? n : room), list,
           n < room ? "" : "...");
}

/* Rows of one trace are under a heading for each way of seeing it. */
static void observed(const kv_result *r, line *l) {
  size_t n = strlen(l->trace);
  if (r->observe)
    snprintf(l->trace + n, sizeof l->trace - n, ", --observe %s",
             kv_observe_names[r->observe]);
}

static kv_rc row(void *self, const kv_result *r, kv_err *e) {
  form *f = self;
  char note[sizeof((line *)0)->note];
  if (f->n == f->room) {
    int room = f->room ? 2 * f->room : 64;
    line *grown = realloc(f->lines, (size_t)room * sizeof *grown);
    if (grown == NULL) {
      return kv_no_memory(e, "the table", (size_t)room * sizeof *grown);
    }
    f->lines = grown;
    f->room = room;
  }
  line *l = &f->lines[f->n];
  memset(l, 0, sizeof *l);
  kv_rc rc = kv_row_label_make(r, &l->label, e);
  if (rc) return rc;
  if (f->n++ == 0)
    snprintf(f->backend, sizeof f->backend, "%s", r->backend ? r->backend : "");
  kv_plain(r->trace, 4 * sizeof r->trace, l->trace);
  observed(r, l);
  asked(r, l);
  listed(r, l);
  if (kv_result_ran(r)) {
    numbers(r, l);
    declared(r, l);
    lent(r, l);
    fetched(r, l);
    return kv_row_layouts_take(r, &l->layouts, e);
  }
  l->empty = true;
  for (int c = 2; c < COLUMNS - 1; c++) strcpy(l->cell[c], "-");
  snprintf(l->cell[COLUMNS - 1], CELL, "%s", kv_status_names[r->status]);
  snprintf(note, sizeof note, "%s at %s: %s", kv_status_names[r->status],
           r->target[0] ? r->target : "no budget", r->reason);
  kv_plain(note, sizeof l->note, l->note);
  return KV_OK;
}

static const char *label(const line *l) {
  return l->label.ambiguous ? l->label.full : l->label.brief;
}

/* Two lines with the same brief label show all parameters. */
static void disambiguate(form *f) {
  for (int i = 0; i < f->n; i++) {
    for (int j = 0; j < i; j++) {
      line *a = &f->lines[i], *b = &f->lines[j];
      if (strcmp(a->trace, b->trace) == 0 &&
          strcmp(a->cell[0], b->cell[0]) == 0 &&
          strcmp(a->cell[1], b->cell[1]) == 0 &&
          strcmp(a->label.brief, b->label.brief) == 0 &&
          strcmp(a->label.full, b->label.full) != 0) {
        a->label.ambiguous = b->label.ambiguous = true;
      }
    }
  }
}

static int larger(int a, size_t b) { return (int)b > a ? (int)b : a; }

static void measure(form *f) {
  f->label = (int)strlen("method");
  for (int c = 0; c < COLUMNS; c++) f->width[c] = (int)strlen(heads[c]);
  for (int i = 0; i < f->n; i++) {
    size_t n = strlen(label(&f->lines[i]));
    if (n <= LABEL_MOST) f->label = larger(f->label, n);
    for (int c = 0; c < COLUMNS; c++) {
      f->width[c] = larger(f->width[c], strlen(f->lines[i].cell[c]));
    }
  }
}

static int gap(const form *f) {
  int total = f->label;
  for (int c = 0; c < COLUMNS; c++) total += f->width[c] + 2;
  return total <= WIDTH ? 2 : 1;
}

static void attribute(const form *f, const char *code) {
  if (f->colour) fprintf(f->out, "\033[%sm", code);
}

static void print(const form *f, const char *name, const line *l) {
  if ((int)strlen(name) > f->label) {
    fprintf(f->out, "%s\n", name);
    name = "";
  }
  fprintf(f->out, "%-*s", f->label, name);
  for (int c = 0; c < COLUMNS; c++) {
    fprintf(f->out, "%*s%*s", gap(f), "", f->width[c],
            l ? l->cell[c] : heads[c]);
  }
  fputc('\n', f->out);
}

static void head(const form *f, const char *trace) {
  attribute(f, "1");
  fprintf(f->out, "%s\n", trace);
  attribute(f, "0");
  attribute(f, "2");
  print(f, "method", NULL);
  attribute(f, "0");
}

/* True if an earlier line of the trace has already shown the same list. */
static bool told(const form *f, int i, const char *trace) {
  const line *l = &f->lines[i];
  for (int j = 0; j < i; j++)
    if (!strcmp(f->lines[j].trace, trace) &&
        !strcmp(f->lines[j].cell[0], l->cell[0]) && f->lines[j].list[0])
      return true;
  return false;
}

/* Prints the layouts of each cell below the trace's rows, if there are any. */
static void group_layouts(const form *f, const char *trace) {
  bool first = true;
  for (int i = 0; i < f->n; i++) {
    const line *l = &f->lines[i];
    if (strcmp(l->trace, trace) || !l->layouts.n) continue;
    attribute(f, "2");
    if (first) kv_row_layouts_head(f->out, f->label, f->width[0]);
    attribute(f, "0");
    kv_row_layouts_print(f->out, f->label, label(l), f->width[0], l->cell[0],
                         &l->layouts);
    first = false;
  }
}

static void group(const form *f, const char *trace) {
  head(f, trace);
  for (int i = 0; i < f->n; i++) {
    const line *l = &f->lines[i];
    if (strcmp(l->trace, trace)) continue;
    if (l->empty) attribute(f, "31");
    print(f, label(l), l);
    if (l->empty) attribute(f, "0");
  }
  for (int i = 0; i < f->n; i++) {
    const line *l = &f->lines[i];
    if (strcmp(l->trace, trace) || !l->note[0]) continue;
    fprintf(f->out, "  %s ", label(l));
    kv_put_plain(f->out, l->note);
    fputc('\n', f->out);
  }
  for (int i = 0; i < f->n; i++) {
    const line *l = &f->lines[i];
    if (strcmp(l->trace, trace) || !l->list[0] || told(f, i, trace)) continue;
    fprintf(f->out, "  %s, entries by layer: %s\n", l->cell[0], l->list);
  }
  group_layouts(f, trace);
  fputc('\n', f->out);
}

static void end(void *self) {
  form *f = self;
  if (f->n == 0) return;
  disambiguate(f);
  measure(f);
  for (int i = 0; i < f->n; i++) {
    bool first = true;
    for (int j = 0; j < i && first; j++) {
      first = strcmp(f->lines[i].trace, f->lines[j].trace) != 0;
    }
    if (first) group(f, f->lines[i].trace);
  }
  attribute(f, "2");
  fputs("end, mean, read: bytes at the end, on average, read a step "
        "(K = 1024); dense: mean share of dense's bytes;\n"
        "scan: bytes looked at a step in order to choose what is read;\n"
        "needle: mass on the needles, dense is 1; lse: log-sum-exp of what is "
        "stored less that of all; kl: of attention;\n"
        "error, p95: of the output, relative; it does not rank right answers "
        "as needle does (README.md);\n"
        "open loop: recorded queries do not feel the approximation",
        f->out);
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

static void release(void *self) {
  form *f = self;
  for (int i = 0; i < f->n; i++) {
    kv_row_label_free(&f->lines[i].label);
    kv_row_layouts_free(&f->lines[i].layouts);
  }
  free(f->lines);
}

const kv_row_form kv_row_form_table = {sizeof(form), begin, row, end, release};
