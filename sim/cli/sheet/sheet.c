/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the sheet: every method is opened at the reference shape for its needs,
 * and opened and replayed on the synthetic trace, all in one replay.
 */
#include "sim/cli/sheet/beside.h"

#include "ref/ground/json.h"
#include "ref/lane/method.h"
#include "ref/lane/records.h"
#include "sim/cli/sheet/sheet.h"
#include "sim/cli/sheet/sheet_trace.h"
#include "sim/cli/show/row_label.h"
#include "sim/store/db.h"
#include "traces/option/help.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference shape; the model's sizes are from Llama-3.1-8B's
 * config.json. */
enum {
  PROMPT = 4096,
  TOKENS = PROMPT + 256,
  LAYERS = 32,
  HEADS = 32,
  KV_HEADS = 8,
  D = 128,
  HIDDEN = 4096,
  INTERMEDIATE = 14336
};
#define BUDGET "20%"
enum { RANKS = 2 }; /* only the first is replayed */

/* What is open while sheets are made. */
typedef struct making {
  kv_sheet_trace on;
  kv_trace like; /* the trace, but as long as the reference and, unless a file
                    was made for the trace's heads, with as many heads */
  kv_layout_list pages;
  kv_budget budget;
  int n;
  kv_cell *cell;           /* [n] on the trace */
  kv_cell **each;          /* [n] those of them that run */
  kv_decided **decided;    /* [n], NULL if one does not run */
  kv_ranks_result *ranked; /* [n] */
  kv_replay_how how;
} making;

/* --- from needs ---------------------------------------------------------- */

static double prefill_flops(void) {
  double n = PROMPT, h = HIDDEN, q = (double)HEADS * D,
         kv = (double)KV_HEADS * D;
  double linear = 2 * n * (2 * h * q + 2 * h * kv + 3 * h * INTERMEDIATE);
  return LAYERS * (linear + 4 * q * n * (n + 1) / 2);
}

/* FLOPs of the logits of the prompt's last rows. */
static double logit_flops(double rows) {
  double pairs = rows * PROMPT - rows * (rows - 1) / 2;
  return LAYERS * 2.0 * HEADS * D * pairs;
}

static void take_needs(const kv_method *m, const kv_needs *need, kv_sheet *s) {
  int rows = need->prompt_rows < PROMPT ? need->prompt_rows : PROMPT;
  bool logits = m->observe && need->want & KV_LOGITS;
  bool prompt = logits && rows, decode = logits && need->decode_rows;
  s->flops = prompt ? 100 * logit_flops(rows) / prefill_flops() : 0;
  s->flash = decode || need->view_logits || (prompt && rows >= PROMPT)
                 ? KV_FLASH_LEFT
             : prompt ? KV_FLASH_AGAIN
                      : KV_FLASH_STAYS;
  s->message = need->message;
}

/* --- from the replay ----------------------------------------------------- */

static double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : NAN;
}

static unsigned across_of(const kv_cell *c, bool recodes, const kv_sheet *s) {
  const kv_method *m = c->spec.method;
  bool down = c->plan.needs.across == KV_DOWN;
  unsigned across = down ? KV_SHEET_LAYERS : 0;
  if (!down && s->ranked && !s->alike) across |= KV_SHEET_HEADS;
  if (m->compress_layer && !m->compress_lane && recodes && !s->ranked)
    across |= KV_SHEET_CODES;
  return across;
}

/* Most bytes in prefill with 32 layers instead of the recorded ones: each
 * block's sum over layers grows with their number, but what a single layer
 * holds before it is compressed does not. */
static double peak_of(const kv_cell *c) {
  double share = (double)c->trace->n_layers / LAYERS, peak = 0;
  for (int b = 0; b < c->blocks; b++) {
    kv_cost_now now = kv_cost_until(c->cost, b);
    double held = (double)kv_bytes_total(&now.held);
    double x = held + share * ((double)now.peak - held);
    if (x > peak) peak = x;
  }
  return peak;
}

static void take_replay(const kv_cell *c, const kv_decided *d,
                        const kv_ranks_result *r, kv_sheet *s) {
  const kv_totals *t = &c->result.totals;
  const kv_layout_result *pages = c->result.layout;
  int p = c->shape.prompt_len, last = c->shape.n_tokens;
  double steps = last - p;
  s->scanned =
      percent(t->scanned, (double)kv_cell_dense(c, p + 1, last, true) / steps);
  s->ragged = t->kept_max / t->kept;
  s->freed = percent((double)pages->freed, (double)pages->vacated);
  s->peak = percent(peak_of(c), (double)kv_cell_dense(c, p, p, false));
  s->ranked = !*r->why;
  s->alike = s->ranked && !r->unlike;
  s->across = across_of(c, kv_decided_recodes(d), s);
}

/* --- all together -------------------------------------------------------- */

static void say_why(kv_sheet *s, const char *why) {
  snprintf(s->why, sizeof s->why, "%.255s", why);
}

/* Opens one specification on a trace; if refused, sets s->why. */
static kv_rc open_on(const making *m, const kv_trace *t, int prompt,
                     const kv_spec *spec, kv_cell *c, kv_sheet *s, kv_err *e) {
  bool wants = kv_spec_wants_budget(spec);
  kv_asked_cell asked = {
      .spec = spec, .budget = wants ? &m->budget : NULL, .entries = -1};
  kv_rc rc = KV_OK;
  if (wants) rc = kv_budget_entries(&m->budget, prompt, &asked.entries, e);
  if (!rc) rc = kv_cell_open(t, prompt, m->how.kernels, &asked, c, e);
  if (!rc && !c->runs) say_why(s, c->result.reason);
  return rc;
}

static bool has_parameters(const kv_spec *s) {
  const kv_param *p = s->method->params;
  bool has = s->windowed_given || s->chunk_given;
  for (int i = 0; p && p[i].name; i++) has |= s->given[i];
  return has;
}

/* Names the row; kv_sheet_free frees the name. */
static kv_rc name_row(const kv_spec *spec, kv_sheet *s, kv_err *e) {
  kv_result row = {.method = spec->method->name};
  kv_row_label label = {0};
  row.spec = has_parameters(spec) ? kv_spec_text(spec) : NULL;
  kv_rc rc = row.spec ? kv_row_label_make(&row, &label, e) : KV_OK;
  if (!rc) s->method = strdup(row.spec ? label.full : row.method);
  kv_row_label_free(&label);
  free(row.spec);
  return rc || s->method ? rc : kv_no_memory(e, "a sheet", 1);
}

static kv_rc open_one(making *m, int i, kv_spec *spec, kv_sheet *s, kv_err *e) {
  kv_cell far = {0};
  kv_err why = {0};
  kv_rc rc = name_row(spec, s, e);
  if (rc) return rc;
  rc = kv_sheet_trace_file(&m->on, spec, &s->made_file, &why);
  if (rc == KV_REFUSED) say_why(s, why.text);
  if (rc) return rc == KV_REFUSED ? KV_OK : kv_fail(e, rc, "%s", why.text);
  const kv_shape *own = &m->on.trace->shape;
  m->like.shape.n_heads = s->made_file ? own->n_heads : HEADS;
  m->like.shape.n_kv_heads = s->made_file ? own->n_kv_heads : KV_HEADS;
  rc = open_on(m, &m->like, PROMPT, spec, &far, s, e);
  if (!rc && far.runs) take_needs(spec->method, &far.plan.needs, s);
  kv_cell_close(&far);
  kv_cell *c = &m->cell[i];
  if (rc || *s->why) return rc;
  rc = open_on(m, m->on.trace, m->on.trace->shape.prompt_len, spec, c, s, e);
  if (!rc) rc = kv_cell_lay_out(c, &m->pages, e);
  if (!rc && !c->runs) say_why(s, c->result.reason);
  if (rc || *s->why) return rc;
  rc = kv_decided_open(c, &m->decided[i], e);
  if (!rc) {
    kv_decided_watch(m->decided[i])->next = m->how.watch;
    m->how.watch = kv_decided_watch(m->decided[i]);
  }
  return rc;
}

static kv_rc open_all(making *m, const kv_specs *specs, kv_sheets *out,
                      kv_err *e) {
  size_t n = (size_t)specs->n + 1;
  m->cell = kv_zalloc(n, sizeof *m->cell);
  m->each = kv_zalloc(n, sizeof *m->each);
  m->decided = kv_zalloc(n, sizeof *m->decided);
  m->ranked = kv_zalloc(n, sizeof *m->ranked);
  out->of = kv_zalloc(n, sizeof *out->of);
  if (!m->cell || !m->each || !m->decided || !m->ranked || !out->of)
    return kv_no_memory(e, "a sheet", n * sizeof *m->cell);
  kv_rc rc = kv_sheet_trace_open(m->how.kernels, &m->on, e);
  if (!rc) rc = kv_budget_parse(BUDGET, &m->budget, e);
  if (!rc) rc = kv_layouts_parse(KV_SHEET_PAGES, &m->pages, e);
  if (rc) return rc;
  m->like = *m->on.trace;
  m->like.rope.positions = NULL; /* positions are the token numbers */
  m->like.tokens = NULL;
  m->like.shape.n_tokens = TOKENS;
  m->like.shape.prompt_len = PROMPT;
  out->n = m->n = specs->n;
  for (int i = 0; !rc && i < m->n; i++) {
    kv_spec own = {0};
    rc = kv_spec_copy(&specs->spec[i], &own, e);
    if (!rc) rc = open_one(m, i, &own, &out->of[i], e);
    kv_spec_free(&own);
  }
  return rc;
}

static kv_rc replay(making *m, kv_sheets *out, bool *stopped, kv_err *e) {
  kv_replay_how how = m->how;
  int runs = 0;
  for (int i = 0; i < m->n; i++)
    if (m->decided[i]) m->each[runs++] = &m->cell[i];
  kv_rc rc = KV_OK;
  if (runs) rc = kv_replay(m->on.trace, m->each, runs, &how, stopped, e);
  for (int i = 0; i < m->n; i++) m->each[i] = &m->cell[i];
  if (!rc && !*stopped)
    rc = kv_ranks_ask(m->on.trace, RANKS, 1, m->n, m->each, m->decided, &how,
                      m->ranked, stopped, e);
  for (int i = 0; !rc && !*stopped && i < m->n; i++) {
    const kv_cell *c = &m->cell[i];
    if (m->decided[i] && !kv_result_ran(&c->result))
      say_why(&out->of[i], c->result.reason);
    else if (m->decided[i])
      take_replay(c, m->decided[i], &m->ranked[i], &out->of[i]);
  }
  return rc;
}

static void close_all(making *m) {
  for (int i = 0; i < m->n; i++) {
    kv_decided_close(m->decided[i]);
    kv_cell_close(&m->cell[i]);
  }
  free(m->cell);
  free(m->each);
  free(m->decided);
  free(m->ranked);
  kv_layout_list_free(&m->pages);
  kv_budget_free(&m->budget);
  kv_sheet_trace_close(&m->on);
}

kv_rc kv_sheet_make(const kv_specs *specs, const kv_kernels *kernels,
                    int threads, bool (*stop)(void), kv_sheets *out,
                    bool *stopped, kv_err *e) {
  making m = {.how = {.backend = &kv_backend_cost,
                      .kernels = kernels,
                      .threads = threads,
                      .stop = stop}};
  *out = (kv_sheets){0};
  *stopped = false;
  kv_rc rc = open_all(&m, specs, out, e);
  if (!rc) rc = replay(&m, out, stopped, e);
  close_all(&m);
  if (*stopped) kv_sheet_free(out);
  return rc;
}

void kv_sheet_free(kv_sheets *s) {
  for (int i = 0; i < s->n; i++) free(s->of[i].method);
  free(s->of);
  *s = (kv_sheets){0};
}

/* --- rows ---------------------------------------------------------------- */

/* Sums over the rows of one method, and numbers of rows. */
typedef struct sums {
  double scanned, ragged, freed, peak;
  int rows, laid_out; /* of these, rows with vacated bytes in pages */
} sums;

static bool matches(const kv_spec *asked, const kv_result *r) {
  kv_spec row = {0};
  if (!kv_result_ran(r) || r->n_steps < 2) return false;
  if (strcmp(r->method, asked->method->name) != 0) return false;
  if (r->revision != asked->method->revision) return false;
  bool same = !kv_spec_parse(kv_method_at, r->spec, &row, NULL) &&
              kv_spec_has(&row, asked);
  kv_spec_free(&row);
  return same;
}

static void add(const kv_result *r, sums *x) {
  const kv_totals *t = &r->totals;
  double token = kv_result_dense(r), seen = 0;
  for (int i = 1; i < r->n_steps; i++) seen += (double)r->step[i].step;
  seen /= r->n_steps - 1;
  x->rows++;
  x->scanned += 100 * t->scanned / (token * seen);
  x->ragged += t->kept_max / t->kept;
  x->peak += 100 * (double)t->peak / (token * r->n_tokens);
  if (!r->n_layouts || r->layout->vacated <= 0) return;
  x->laid_out++;
  x->freed += 100 * (double)r->layout->freed / (double)r->layout->vacated;
}

/* Adds the row's layout in pages, if the database has it. */
static kv_rc lay_out(kv_db *db, kv_result *r, kv_err *e) {
  bool all = false;
  r->layout = kv_zalloc(1, sizeof *r->layout);
  if (!r->layout) return kv_no_memory(e, "a sheet", sizeof *r->layout);
  snprintf(r->layout->name, sizeof r->layout->name, KV_SHEET_PAGES);
  r->n_layouts = 1;
  kv_rc rc = kv_db_find_layouts(db, r, &all, e);
  r->n_layouts = all;
  return rc;
}

static void take(const sums *x, kv_sheet *s) {
  s->rows = x->rows;
  if (!x->rows) return;
  s->scanned = x->scanned / x->rows;
  s->ragged = x->ragged / x->rows;
  s->peak = x->peak / x->rows;
  if (x->laid_out) s->freed = x->freed / x->laid_out;
}

kv_rc kv_sheet_measure(const char *path, const kv_specs *specs,
                       bool (*stop)(void), kv_sheets *out, kv_err *e) {
  kv_db *db = NULL;
  char key[65] = "";
  bool more = true;
  const kv_db_wait wait = {.stop = stop};
  sums *x = kv_zalloc((size_t)out->n + 1, sizeof *x);
  kv_rc rc = x ? kv_db_open_found(path, &wait, &db, e)
               : kv_no_memory(e, "a sheet", (size_t)out->n * sizeof *x);
  while (!rc && more) {
    kv_result r = {0};
    rc = kv_db_next(db, key, &r, &more, e);
    if (!rc && more) rc = lay_out(db, &r, e);
    for (int i = 0; !rc && more && i < out->n; i++)
      if (matches(&specs->spec[i], &r)) add(&r, &x[i]);
    kv_result_free(&r);
  }
  kv_db_close(db);
  for (int i = 0; !rc && i < out->n; i++) take(&x[i], &out->of[i]);
  free(x);
  return rc;
}

typedef enum kind { NOTHING, TEXT, WHOLE, REAL } kind;

/* One value of the sheet. */
typedef struct value {
  kind kind;
  double x;      /* of WHOLE and REAL */
  char text[48]; /* of TEXT */
} value;

static value text(const char *word) {
  value v = {.kind = *word ? TEXT : NOTHING};
  snprintf(v.text, sizeof v.text, "%s", word);
  return v;
}

static value whole(double x) { return (value){.kind = WHOLE, .x = x}; }
static value real(double x) {
  return (value){.kind = isnan(x) ? NOTHING : REAL, .x = x};
}

/* --- the columns --------------------------------------------------------- */

static value flops(const kv_sheet *s) { return real(s->flops); }
static value flash(const kv_sheet *s) {
  static const char *const word[] = {"stays", "again", "left"};
  return text(word[s->flash]);
}
static value scanned(const kv_sheet *s) { return real(s->scanned); }

/* Appends word if `is`, with a + before all but the first. */
static void join(bool is, const char *word, value *v) {
  size_t n = strlen(v->text);
  if (!is) return;
  v->kind = TEXT;
  snprintf(v->text + n, sizeof v->text - n, "%s%s", n ? "+" : "", word);
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

/* --- forms --------------------------------------------------------------- */

static value at(const kv_sheet *s, int i) {
  return *s->why ? (value){.kind = NOTHING} : list[i].of(s);
}

/* Writes the value as in the table, or as in CSV. */
static void show(const value *v, bool people, char out[64]) {
  if (v->kind == NOTHING) snprintf(out, 64, "%s", people ? "-" : "");
  if (v->kind == TEXT) snprintf(out, 64, "%s", v->text);
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

/* Prints remarks below the table. */
static void notes(const kv_sheets *s, FILE *out) {
  char made[256] = "";
  for (int k = 0; k < s->n; k++) {
    size_t n = strlen(made);
    if (s->of[k].made_file)
      snprintf(made + n, sizeof made - n, "%s%s", n ? ", " : "",
               s->of[k].method);
    if (*s->of[k].why) fprintf(out, "%s: %s\n", s->of[k].method, s->of[k].why);
  }
  if (*made) fprintf(out, "with a file of random numbers: %s\n", made);
  fputs("Llama-3.1-8B, a prompt of 4,096 tokens, budgets of 20 %; -: no, none, "
        "0;\n`kvreplay methods --help` explains the columns\n",
        out);
}

static void quoted(const char *text, FILE *out) {
  fputc('"', out);
  for (const char *c = text; *c; c++) fputc(*c == '"' ? '\'' : *c, out);
  fputc('"', out);
}

static void csv(const kv_sheets *s, FILE *out) {
  char word[64];
  fputs("method,why,made_file", out);
  for (int i = 0; i < COLUMNS; i++) fprintf(out, ",%s", list[i].name);
  for (int k = 0; k < s->n; k++) {
    const kv_sheet *x = &s->of[k];
    fputc('\n', out);
    if (strpbrk(x->method, ",\""))
      quoted(x->method, out);
    else
      fputs(x->method, out);
    fputc(',', out);
    quoted(x->why, out);
    fprintf(out, ",%d", x->made_file);
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
