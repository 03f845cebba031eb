/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as a table for people, at most 120 columns: sim/rows.h. Lines are
 * kept until the end, when widths are known, and grouped by trace in the
 * order in which traces came. Labels are made in row_label.c.
 */
#include "sim/row_label.h"
#include "sim/rows.h"

#include "ref/method.h"
#include "sim/number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 120, CELL = 16, LABEL_MOST = 30, COLUMNS = 13 };

static const char *const heads[COLUMNS] = {
    "asked", "budget", "kept", "end",   "mean",   "dense",  "read",
    "error", "p95",    "mass", "top16", "needle", "journal"};

typedef struct line {
  kv_row_label label;
  char trace[256];
  char cell[COLUMNS][CELL];
  char note[640]; /* "" or what is to be said below */
  bool empty;     /* there are no numbers */
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
  share(&s[KV_OUTPUT_ERROR], s[KV_OUTPUT_ERROR].mean, l->cell[7]);
  share(&s[KV_OUTPUT_ERROR], s[KV_OUTPUT_ERROR].p95, l->cell[8]);
  share(&s[KV_MASS], s[KV_MASS].mean, l->cell[9]);
  share(&s[KV_RECALL_16], s[KV_RECALL_16].mean, l->cell[10]);
  share(&s[KV_NEEDLE_VIEW], s[KV_NEEDLE_VIEW].mean, l->cell[11]);
  kv_digest_hex(&r->journal, hex);
  snprintf(l->cell[12], CELL, "%.8s", hex);
}

/* What the maker of decisions says that his method holds beside its entries
 * is in the bytes, and told apart. */
static void declared(const kv_result *r, line *l) {
  const kv_method *m = kv_method_named(r->method);
  int64_t said = r->totals.end.columns + r->totals.end.side;
  char text[CELL];
  if (!m || !m->decisions || said == 0) return;
  bytes((double)said, text);
  snprintf(l->note, sizeof l->note,
           "declares %s of its bytes at the end (columns, meta): taken on "
           "trust, not measured",
           text);
}

static kv_rc row(void *self, const kv_result *r, kv_err *e) {
  form *f = self;
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
  snprintf(l->trace, sizeof l->trace, "%s", r->trace);
  for (char *c = l->trace; *c; c++) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
  }
  asked(r, l);
  if (kv_result_ran(r)) {
    numbers(r, l);
    declared(r, l);
    return KV_OK;
  }
  l->empty = true;
  for (int c = 2; c < COLUMNS - 1; c++) strcpy(l->cell[c], "-");
  snprintf(l->cell[COLUMNS - 1], CELL, "%s", kv_status_names[r->status]);
  snprintf(l->note, sizeof l->note, "%s at %s: %s", kv_status_names[r->status],
           r->target[0] ? r->target : "no budget", r->reason);
  return KV_OK;
}

static const char *label(const line *l) {
  return l->label.ambiguous ? l->label.full : l->label.brief;
}

/* Two lines that a reader could not tell apart show every parameter. */
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
    fprintf(f->out, "  %s %s\n", label(l), l->note);
  }
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
        "error, p95: of the output, relative; mass, top16, needle: what the "
        "view holds of the exact attention.\n"
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
  for (int i = 0; i < f->n; i++) kv_row_label_free(&f->lines[i].label);
  free(f->lines);
}

const kv_row_form kv_row_form_table = {sizeof(form), begin, row, end, release};
