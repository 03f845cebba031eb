/* SPDX-License-Identifier: Apache-2.0
 *
 * A grading as one JSON object: sim/grade/grade_report.h.
 */
#include "sim/grade/grade_report.h"

#include <math.h>

#include "sim/text/json.h"

/* A number that may not be finite, which JSON cannot express: as text, since
 * null means that there is none. */
static void found(kv_json *j, const char *key, double x) {
  if (isfinite(x))
    kv_json_real(j, key, x);
  else
    kv_json_text(j, key, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

static void counts(kv_json *j, const kv_grade_report *r, int layer) {
  int64_t all = 0, n;
  for (int k = 0; k < KV_GRADES; k++) {
    n = layer < 0 ? kv_grade_count(r, (kv_grade)k) : r->layer[layer].count[k];
    kv_json_integer(j, k == KV_GRADE_TIE ? "ties" : kv_grade_names[k], n);
    all += n;
  }
  kv_json_integer(j, "decisions", all);
}

static void apart(kv_json *j, const char *key, int n, const kv_apart *a) {
  kv_json_open(j, key, '[');
  for (int i = 0; i < n && i < KV_MOST_APART; i++) {
    kv_json_open(j, NULL, '{');
    kv_json_integer(j, "first", a[i].first);
    kv_json_integer(j, "last", a[i].last);
    if (a[i].scored)
      found(j, "score", (double)a[i].score);
    else
      kv_json_null(j, "score");
    kv_json_close(j, '}');
  }
  kv_json_close(j, ']');
}

/* Null: no --tie makes them ties. */
static void least_tie(kv_json *j, double least, bool any) {
  if (any)
    kv_json_real(j, "least_tie", least);
  else
    kv_json_null(j, "least_tie");
}

static void judged(kv_json *j, const char *key, const kv_grade_report *r,
                   const kv_judged *w) {
  char text[KV_VERDICT_TEXT];
  kv_json_open(j, key, '{');
  kv_json_text(j, "why", kv_wrong_names[w->why]);
  kv_json_count_or_null(j, "layer", w->layer);
  kv_json_count_or_null(j, "step", w->step);
  kv_json_count_or_null(j, "lane", w->lane);
  kv_json_count_or_null(j, "head", w->head);
  kv_json_count_or_null(j, "ours", w->ours);
  kv_json_count_or_null(j, "theirs", w->theirs);
  apart(j, "took", w->took, w->taken);
  apart(j, "left", w->left, w->missed);
  if (w->has_cut)
    found(j, "cut", (double)w->cut);
  else
    kv_json_null(j, "cut");
  least_tie(j, w->least_tie, isfinite(w->least_tie));
  kv_json_text(j, "sentence", kv_judged_text(w, r->tie, r->page, text));
  kv_json_close(j, '}');
}

static void place(kv_json *j, const char *key, bool there,
                  const kv_output_place *p) {
  if (!there) {
    kv_json_null(j, key);
    return;
  }
  kv_json_open(j, key, '{');
  kv_json_count_or_null(j, "layer", p->layer);
  kv_json_count_or_null(j, "step", p->step);
  kv_json_count_or_null(j, "head", p->head);
  kv_json_count_or_null(j, "element", p->element);
  found(j, "theirs", (double)p->theirs);
  found(j, "ours", (double)p->ours);
  kv_json_close(j, '}');
}

static void ulps(kv_json *j, const kv_output_sums *s) {
  kv_json_open(j, "ulp", '[');
  for (int b = 0; b < KV_ULP_BUCKETS; b++) {
    kv_json_open(j, NULL, '{');
    kv_json_count_or_null(j, "most",
                          b < KV_ULP_BUCKETS - 1 ? kv_ulp_most[b] : -1);
    kv_json_integer(j, "elements", s->ulp[b]);
    kv_json_close(j, '}');
  }
  kv_json_close(j, ']');
}

static void sums(kv_json *j, const char *key, const kv_output_sums *s) {
  kv_json_open(j, key, '{');
  kv_json_integer(j, "rows", s->rows);
  kv_json_integer(j, "wrong", s->wrong);
  found(j, "relative_l2", kv_output_relative(s));
  found(j, "max_abs", s->most);
  kv_json_real(j, "matched",
               s->elements ? (double)s->matched / (double)s->elements : 1);
  if (s->lses)
    found(j, "lse_max_abs", s->lse_most);
  else
    kv_json_null(j, "lse_max_abs");
  ulps(j, s);
  place(j, "worst", s->rows > 0, &s->worst);
  place(j, "first_wrong", s->wrong > 0, &s->first);
  kv_json_close(j, '}');
}

/* With --all: every wrong decision, and the worst element of each wrong row. */
static void everything(kv_json *j, const kv_grade_report *r, int i) {
  kv_judged w;
  int64_t n = 0;
  const kv_output_place *p =
      r->outputs ? kv_outputs_wrong(r->outputs, i, &n) : NULL;
  kv_json_open(j, "wrong_decisions", '[');
  for (size_t at = 0; kv_wrongs_next(&r->layer[i].wrong, &at, &w);)
    judged(j, NULL, r, &w);
  kv_json_close(j, ']');
  kv_json_open(j, "wrong_rows", '[');
  for (int64_t k = 0; k < n; k++) place(j, NULL, true, &p[k]);
  kv_json_close(j, ']');
}

static void layer(kv_json *j, const kv_grade_report *r, int i) {
  const kv_graded_layer *l = &r->layer[i];
  kv_json_open(j, NULL, '{');
  kv_json_integer(j, "layer", l->layer);
  counts(j, r, i);
  least_tie(j, l->least_tie, l->never_ties == 0);
  kv_json_integer(j, "never_ties", l->never_ties);
  if (l->count[KV_GRADE_WRONG])
    judged(j, "first_wrong", r, &l->first);
  else
    kv_json_null(j, "first_wrong");
  if (r->all) everything(j, r, i);
  if (r->outputs)
    sums(j, "outputs", kv_outputs_layer(r->outputs, i));
  else
    kv_json_null(j, "outputs");
  kv_json_close(j, '}');
}

static void all_outputs(kv_json *j, const kv_grade_report *r) {
  if (!r->outputs) {
    kv_json_null(j, "outputs");
    return;
  }
  const kv_outputs_how *how = kv_outputs_asked(r->outputs);
  kv_output_sums s = kv_grade_outputs(r);
  kv_json_text(j, "dtype", kv_outputs_type(r->outputs));
  kv_json_real(j, "atol", how->atol);
  kv_json_real(j, "rtol", how->rtol);
  kv_json_text(j, "lse_base", how->lse_base2 ? "2" : "e");
  sums(j, "outputs", &s);
}

void kv_grade_json(const kv_grade_report *r, FILE *out) {
  kv_json j = {.out = out};
  const kv_result *row = r->row;
  int64_t never;
  double least = kv_grade_least_tie(r, &never);
  kv_json_open(&j, NULL, '{');
  kv_json_text(&j, "trace", row->trace);
  kv_json_count_or_null(&j, "prompt_len", row->prompt_len);
  kv_json_text(&j, "observe", kv_observe_names[row->observe]);
  kv_json_count_or_null(&j, "n_tokens", row->n_tokens);
  kv_json_text(&j, "method", row->method);
  kv_json_raw(&j, "params", row->params ? row->params : "null");
  kv_json_text(&j, "spec", row->spec ? row->spec : row->method);
  kv_json_count_or_null(&j, "budget", row->budget);
  kv_json_text(&j, "theirs", r->theirs->name);
  kv_json_text(&j, "follow", r->follow_ours ? "ours" : "theirs");
  kv_json_real(&j, "tie", r->tie);
  counts(&j, r, -1);
  least_tie(&j, least, never == 0);
  kv_json_integer(&j, "never_ties", never);
  kv_json_raw(&j, "passed", kv_grade_failed(r) ? "false" : "true");
  kv_json_open(&j, "layers", '[');
  for (int i = 0; i < r->layers; i++) layer(&j, r, i);
  kv_json_close(&j, ']');
  all_outputs(&j, r);
  kv_json_close(&j, '}');
  fputc('\n', out);
}
