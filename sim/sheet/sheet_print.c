/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of the sheet as one table, and the three forms that walk it.
 */
#include "sim/sheet/sheet.h"

#include "ref/lane/records.h"
#include "sim/text/json.h"
#include "traces/option/help.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

typedef enum kind { NOTHING, TEXT, FLAG, WHOLE, REAL } kind;

/* What stands in one place of the sheet. */
typedef struct value {
  kind kind;
  double x;      /* of FLAG, WHOLE and REAL */
  char text[48]; /* of TEXT */
} value;

static value text(const char *word) {
  value v = {.kind = *word ? TEXT : NOTHING};
  snprintf(v.text, sizeof v.text, "%s", word);
  return v;
}

static value whole(double x) { return (value){.kind = WHOLE, .x = x}; }
static value flag(bool x) { return (value){.kind = FLAG, .x = x}; }
static value real(double x) {
  return (value){.kind = isnan(x) ? NOTHING : REAL, .x = x};
}

/* --- the columns ---------------------------------------------------------- */

/* The most that rows carry, of which the others are made. */
static value shown(unsigned want) {
  return text(want & (KV_P | KV_SUM) ? "probabilities"
              : want & KV_S          ? "logits"
              : want & KV_Q          ? "queries"
                                     : "none");
}

static value rows(const kv_sheet *s) { return whole(s->prompt_rows); }
static value prompt(const kv_sheet *s) { return shown(s->prompt); }
static value flops(const kv_sheet *s) { return real(s->flops); }
static value decode(const kv_sheet *s) {
  return s->future       ? text("rows to come")
         : s->all_logits ? text("all logits")
                         : shown(s->decode);
}
static value flash(const kv_sheet *s) {
  static const char *const word[] = {"stays", "again", "left"};
  return text(word[s->flash]);
}
static value columns(const kv_sheet *s) { return whole(s->columns); }
static value side(const kv_sheet *s) { return real(s->side); }
static value lane(const kv_sheet *s) { return whole((double)s->lane); }
static value scanned(const kv_sheet *s) { return real(s->scanned); }

/* Appends word, with a + before it where it is not the first. */
static void join(bool is, const char *word, value *v) {
  size_t n = strlen(v->text);
  if (!is) return;
  v->kind = TEXT;
  snprintf(v->text + n, sizeof v->text - n, "%s%s", n ? "+" : "", word);
}

static value verbs(const kv_sheet *s) {
  value v = {.kind = NOTHING};
  for (uint32_t k = KV_VIEW; k <= KV_MOVE; k++)
    join(s->kinds >> k & 1, kv_record_kind_of(k)->name, &v);
  return v.kind ? v : text("none");
}
static value across(const kv_sheet *s) {
  value v = {.kind = NOTHING};
  join(s->across & KV_SHEET_HEADS, "heads", &v);
  join(s->across & KV_SHEET_CODES, "codes", &v);
  join(s->across & KV_SHEET_LAYERS, "layers", &v);
  return v.kind ? v : text("none");
}
static value message(const kv_sheet *s) { return whole((double)s->message); }
static value ranks(const kv_sheet *s) {
  return text(!s->ranked ? "" : s->alike ? "same" : "other");
}
static value reindex(const kv_sheet *s) { return flag(s->reindex); }
static value loses(const kv_sheet *s) {
  bool merges = s->kinds >> KV_MERGE & 1;
  return text(s->dropped ? "dropped" : merges ? "merged" : "none");
}
static value ragged(const kv_sheet *s) { return real(s->ragged); }
static value freed(const kv_sheet *s) { return real(s->freed); }
static value peak(const kv_sheet *s) { return real(s->peak); }
static value cells(const kv_sheet *s) { return whole(s->rows); }

#define COLUMN(of, name, head, help) {name, head, of},
static const struct column {
  const char *name, *head;
  value (*of)(const kv_sheet *s);
} list[] = {KV_SHEET_COLUMNS(COLUMN)};
#undef COLUMN

enum { COLUMNS = sizeof list / sizeof *list };

/* --- forms ---------------------------------------------------------------- */

static value at(const kv_sheet *s, int i) {
  return *s->why ? (value){.kind = NOTHING} : list[i].of(s);
}

/* As it stands in the table, or in CSV. */
static void show(const value *v, bool people, char out[64]) {
  const char *no = people ? "-" : "0";
  if (v->kind == NOTHING) snprintf(out, 64, "%s", people ? "-" : "");
  if (v->kind == TEXT) snprintf(out, 64, "%s", v->text);
  if (v->kind == FLAG)
    snprintf(out, 64, "%s", v->x != 0 ? people ? "yes" : "1" : no);
  if (v->kind == WHOLE)
    snprintf(out, 64, people && v->x == 0 ? "-" : "%.0f", v->x);
  if (v->kind == REAL)
    snprintf(out, 64, people ? v->x != 0 ? "%.2f" : "-" : "%.6g", v->x);
  if (people && strcmp(out, "none") == 0) snprintf(out, 64, "-");
}

static bool is_number(int i, const kv_sheets *s) {
  for (int k = 0; k < s->n; k++) {
    value v = at(&s->of[k], i);
    if (v.kind != NOTHING) return v.kind >= WHOLE;
  }
  return false;
}

static void table_row(const kv_sheet *s, int method, const int *width,
                      const bool *right, FILE *out) {
  char word[64];
  fprintf(out, "%-*s", method, s ? s->method : "method");
  for (int i = 0; i < COLUMNS; i++) {
    value v = s ? at(s, i) : text(list[i].head);
    show(&v, s != NULL, word);
    bool last = i == COLUMNS - 1;
    fprintf(out, "  %*s", right[i] ? width[i] : last ? 0 : -width[i], word);
  }
  fputc('\n', out);
}

static void table(const kv_sheets *s, FILE *out) {
  int width[COLUMNS], method = 6;
  bool right[COLUMNS];
  char word[64];
  for (int k = 0; k < s->n; k++)
    if ((int)strlen(s->of[k].method) > method)
      method = (int)strlen(s->of[k].method);
  for (int i = 0; i < COLUMNS; i++) {
    width[i] = (int)strlen(list[i].head);
    right[i] = is_number(i, s);
    for (int k = 0; k < s->n; k++) {
      value v = at(&s->of[k], i);
      show(&v, true, word);
      if ((int)strlen(word) > width[i]) width[i] = (int)strlen(word);
    }
  }
  table_row(NULL, method, width, right, out);
  for (int k = 0; k < s->n; k++)
    table_row(&s->of[k], method, width, right, out);
}

/* What a table cannot hold, below it. */
static void notes(const kv_sheets *s, FILE *out) {
  char made[256] = "";
  for (int k = 0; k < s->n; k++) {
    size_t n = strlen(made);
    if (s->of[k].made_file)
      snprintf(made + n, sizeof made - n, "%s%s", n ? ", " : "",
               s->of[k].method);
    if (*s->of[k].why) fprintf(out, "%s: %s\n", s->of[k].method, s->of[k].why);
  }
  if (*made) fprintf(out, "with a file of seeded numbers: %s\n", made);
  fputs("Llama-3.1-8B, a prompt of 4,096 tokens, budgets of 20 %; -: no, none, "
        "0;\n`kvreplay methods --help` says what the columns are\n",
        out);
}

static void csv(const kv_sheets *s, FILE *out) {
  char word[64];
  fputs("method,why,made_file", out);
  for (int i = 0; i < COLUMNS; i++) fprintf(out, ",%s", list[i].name);
  for (int k = 0; k < s->n; k++) {
    const kv_sheet *x = &s->of[k];
    fprintf(out, "\n%s,\"", x->method);
    for (const char *c = x->why; *c; c++) fputc(*c == '"' ? '\'' : *c, out);
    fprintf(out, "\",%d", x->made_file);
    for (int i = 0; i < COLUMNS; i++) {
      value v = at(x, i);
      show(&v, false, word);
      fprintf(out, ",%s", word);
    }
  }
  fputc('\n', out);
}

static void put_json(kv_json *j, const char *name, const value *v) {
  if (v->kind == NOTHING) kv_json_null(j, name);
  if (v->kind == TEXT) kv_json_text(j, name, v->text);
  if (v->kind == FLAG) kv_json_raw(j, name, v->x != 0 ? "true" : "false");
  if (v->kind == WHOLE) kv_json_integer(j, name, (int64_t)v->x);
  if (v->kind == REAL) kv_json_real(j, name, v->x);
}

static void json(const kv_sheets *s, FILE *out) {
  kv_json j = {.out = out};
  kv_json_open(&j, NULL, '[');
  for (int k = 0; k < s->n; k++) {
    const kv_sheet *x = &s->of[k];
    fputs(k ? ",\n" : "\n", out);
    j.comma = false;
    kv_json_open(&j, NULL, '{');
    kv_json_text(&j, "method", x->method);
    kv_json_text_or_null(&j, "why", x->why);
    kv_json_raw(&j, "made_file", x->made_file ? "true" : "false");
    for (int i = 0; i < COLUMNS; i++) {
      value v = at(x, i);
      put_json(&j, list[i].name, &v);
    }
    kv_json_close(&j, '}');
  }
  fputs("\n]\n", out);
}

void kv_sheet_print(const kv_sheets *s, kv_sheet_form form, FILE *out) {
  if (form == KV_SHEET_JSON) {
    json(s, out);
  } else if (form == KV_SHEET_CSV) {
    csv(s, out);
  } else {
    table(s, out);
    notes(s, out);
  }
}
