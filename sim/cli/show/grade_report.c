/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/grade_report.h"

#include "ref/ground/json.h"
#include "ref/ground/text.h"
#include "sim/cli/show/junit.h"
#include "sim/cli/show/row_label.h"
#include "sim/cli/show/xml.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static kv_output_sums grade_outputs(const kv_grade_report *r);

static double grade_least_tie(const kv_grade_report *r, int64_t *never);

static int64_t grade_count(const kv_grade_report *r, kv_grade grade);

/* Numbers that are not finite, which JSON cannot express, are written as text,
 * since null means that there is none. */
static void found(kv_json *j, const char *key, double x) {
  if (isfinite(x))
    kv_json_real(j, key, x);
  else
    kv_json_text(j, key, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

static void counts(kv_json *j, const kv_grade_report *r, int layer) {
  int64_t all = 0, n;
  for (int k = 0; k < KV_GRADES; k++) {
    n = layer < 0 ? grade_count(r, (kv_grade)k) : r->layer[layer].count[k];
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

/* null if no --tie makes all of them ties. */
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
  kv_output_sums s = grade_outputs(r);
  kv_json_text(j, "dtype", kv_outputs_type(r->outputs));
  kv_json_real(j, "atol", how->atol);
  kv_json_real(j, "rtol", how->rtol);
  kv_json_text(j, "lse_base", how->lse_base2 ? "2" : "e");
  sums(j, "outputs", &s);
}

static void grade_json(const kv_grade_report *r, FILE *out) {
  kv_json j = {.out = out};
  const kv_result *row = r->row;
  int64_t never;
  double least = grade_least_tie(r, &never);
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

/* --- junit --------------------------------------------------------------- */

typedef struct of_layer {
  const kv_grade_report *r;
  int i;
} of_layer;

/* A line for each wrong decision and each wrong row of a layer. */
static void junit_everything(const void *self, FILE *out) {
  const kv_grade_report *r = ((const of_layer *)self)->r;
  int i = ((const of_layer *)self)->i;
  char text[KV_VERDICT_TEXT];
  kv_judged j;
  for (size_t at = 0; kv_wrongs_next(&r->layer[i].wrong, &at, &j);) {
    kv_xml_escape(out, kv_judged_text(&j, r->tie, r->page, text));
    fputc('\n', out);
  }
  int64_t n = 0;
  const kv_output_place *p =
      r->outputs ? kv_outputs_wrong(r->outputs, i, &n) : NULL;
  for (int64_t k = 0; k < n; k++) {
    kv_xml_escape(out, kv_output_text(&p[k], text));
    fputc('\n', out);
  }
}

static const kv_output_sums *outputs_of(const kv_grade_report *r, int i) {
  return r->outputs ? kv_outputs_layer(r->outputs, i) : NULL;
}

static bool wrong(const kv_grade_report *r, int i) {
  const kv_output_sums *s = outputs_of(r, i);
  return r->layer[i].count[KV_GRADE_WRONG] || (s && s->wrong);
}

static void testcase(const kv_grade_report *r, int i, FILE *out) {
  const kv_graded_layer *l = &r->layer[i];
  const of_layer self = {r, i};
  char text[KV_VERDICT_TEXT] = "", layer[16];
  const char *const name[] = {r->row->spec, " layer ", layer, NULL};
  snprintf(layer, sizeof layer, "%d", l->layer);
  if (l->count[KV_GRADE_WRONG])
    kv_judged_text(&l->first, r->tie, r->page, text);
  else if (wrong(r, i))
    kv_output_text(&outputs_of(r, i)->first, text);
  kv_junit_case(out, r->row->trace, name,
                wrong(r, i) ? KV_JUNIT_FAILURE : KV_JUNIT_PASSED, text,
                r->all ? junit_everything : NULL, &self);
}

static void properties(const kv_grade_report *r, FILE *out) {
  int64_t never;
  char text[KV_TIE_TEXT];
  kv_tie_text(grade_least_tie(r, &never), text);
  fputs("  <properties>\n", out);
  fprintf(out, "    <property name=\"tie\" value=\"%g\"/>\n", r->tie);
  fprintf(out, "    <property name=\"least_tie\" value=\"%s\"/>\n",
          never ? "none" : text);
  fprintf(out, "    <property name=\"never_ties\" value=\"%" PRId64 "\"/>\n",
          never);
  fputs("  </properties>\n", out);
}

static void grade_junit(const kv_grade_report *r, FILE *out) {
  int count[KV_JUNIT_OUTCOMES] = {0};
  for (int i = 0; i < r->layers; i++)
    count[wrong(r, i) ? KV_JUNIT_FAILURE : KV_JUNIT_PASSED]++;
  kv_junit_begin(out, "kvreplay grade", count);
  properties(r, out);
  for (int i = 0; i < r->layers; i++) testcase(r, i, out);
  kv_junit_end(out);
}

/* --- report -------------------------------------------------------------- */

enum { NUMBER = 32 };

/* Decisions of one grade, summed over layers. */
static int64_t grade_count(const kv_grade_report *r, kv_grade grade) {
  int64_t n = 0;
  for (int i = 0; i < r->layers; i++) n += r->layer[i].count[grade];
  return n;
}

/* The least --tie that makes every differing decision a tie, except *never of
 * them that none makes a tie; 0 if none differs. */
static double grade_least_tie(const kv_grade_report *r, int64_t *never) {
  double most = 0;
  *never = 0;
  for (int i = 0; i < r->layers; i++) {
    most = fmax(most, r->layer[i].least_tie);
    *never += r->layer[i].never_ties;
  }
  return most;
}

/* The comparison of outputs, summed over layers; zero without outputs. */
static kv_output_sums grade_outputs(const kv_grade_report *r) {
  kv_output_sums all = {0};
  for (int i = 0; r->outputs && i < r->layers; i++)
    kv_output_add(kv_outputs_layer(r->outputs, i), &all);
  return all;
}

bool kv_grade_failed(const kv_grade_report *r) {
  return grade_count(r, KV_GRADE_WRONG) || grade_outputs(r).wrong;
}

/* Writes "163,840". */
static const char *thousands(int64_t n, char out[NUMBER]) {
  char plain[NUMBER];
  int length = snprintf(plain, sizeof plain, "%" PRId64, n), to = 0;
  for (int i = 0; i < length; i++) {
    if (i && (length - i) % 3 == 0) out[to++] = ',';
    out[to++] = plain[i];
  }
  out[to] = 0;
  return out;
}

static double percent(int64_t part, int64_t whole) {
  return whole ? 100 * (double)part / (double)whole : 100;
}

/* --- table -------------------------------------------------------------- */

static void line(FILE *out, const kv_graded_layer *l, const kv_output_sums *o) {
  char n[NUMBER];
  int64_t all = 0;
  for (int k = 0; k < KV_GRADES; k++) all += l->count[k];
  fprintf(out, "%5d  %10s", l->layer, thousands(all, n));
  for (int k = 0; k < KV_GRADES; k++)
    fprintf(out, "  %9s", thousands(l->count[k], n));
  if (o)
    fprintf(out, "  %8.2e  %8.2e  %7.3f%%", kv_output_relative(o), o->most,
            percent(o->matched, o->elements));
  fputc('\n', out);
}

static void summary(FILE *out, const kv_grade_report *r) {
  char n[KV_GRADES + 1][NUMBER];
  int64_t all = 0, of[KV_GRADES];
  for (int k = 0; k < KV_GRADES; k++)
    all += of[k] = grade_count(r, (kv_grade)k);
  if (all == 0) return;
  fprintf(out, "%s decision%s: %s equal, %s tie%s, %s wrong\n",
          thousands(all, n[KV_GRADES]), all == 1 ? "" : "s",
          thousands(of[0], n[0]), thousands(of[1], n[1]), of[1] == 1 ? "" : "s",
          thousands(of[2], n[2]));
}

/* Prints which --tie would make all differences ties, if any would. */
static void ties(FILE *out, const kv_grade_report *r) {
  int64_t never, all = 0;
  double least = grade_least_tie(r, &never);
  char text[KV_TIE_TEXT], n[NUMBER];
  for (int i = 0; i < r->layers; i++)
    all += r->layer[i].count[KV_GRADE_TIE] + r->layer[i].count[KV_GRADE_WRONG];
  if (all == 0) return;
  kv_tie_text(least, text);
  if (never == 0)
    fprintf(out, "all ties at --tie %s\n", text);
  else if (never == all)
    fputs("ties at no --tie: no score near a cut explains them\n", out);
  else
    fprintf(out,
            "%s ties at no --tie: no score near a cut explains them; the "
            "others at --tie %s\n",
            thousands(never, n), text);
}

static const kv_judged *first_wrong(const kv_grade_report *r) {
  for (int i = 0; i < r->layers; i++)
    if (r->layer[i].count[KV_GRADE_WRONG]) return &r->layer[i].first;
  return NULL;
}

/* Prints the first wrong decision, or all. */
static void wrong_decisions(FILE *out, const kv_grade_report *r) {
  char text[KV_VERDICT_TEXT];
  const kv_judged *first = first_wrong(r);
  kv_judged j;
  if (first && !r->all)
    fprintf(out, "first wrong: %s\n",
            kv_judged_text(first, r->tie, r->page, text));
  for (int i = 0; r->all && i < r->layers; i++)
    for (size_t at = 0; kv_wrongs_next(&r->layer[i].wrong, &at, &j);)
      fprintf(out, "wrong: %s\n", kv_judged_text(&j, r->tie, r->page, text));
}

static void report_ulps(FILE *out, const kv_output_sums *s) {
  fputs("  ulp ", out);
  for (int b = 0; b < KV_ULP_BUCKETS; b++) {
    if (b == KV_ULP_BUCKETS - 1)
      fprintf(out, "  more %.3g%%", percent(s->ulp[b], s->elements));
    else
      fprintf(out, "  %s%d %.3g%%", kv_ulp_most[b] > 2 ? "<=" : "",
              kv_ulp_most[b], percent(s->ulp[b], s->elements));
  }
  fputc('\n', out);
}

static void worst(FILE *out, const char *what, double most,
                  const kv_output_place *p) {
  char text[KV_OUTPUT_TEXT];
  fprintf(out, "  largest %s %.3g\n", what, most);
  if (most > 0) fprintf(out, "    %s\n", kv_output_text(p, text));
}

static void wrong_rows(FILE *out, const kv_grade_report *r,
                       const kv_output_sums *s) {
  char text[KV_OUTPUT_TEXT];
  if (s->wrong && !r->all)
    fprintf(out, "first wrong output: %s\n", kv_output_text(&s->first, text));
  for (int i = 0; r->all && i < r->layers; i++) {
    int64_t n;
    const kv_output_place *p = kv_outputs_wrong(r->outputs, i, &n);
    for (int64_t k = 0; k < n; k++)
      fprintf(out, "wrong output: %s\n", kv_output_text(&p[k], text));
  }
}

static void outputs(FILE *out, const kv_grade_report *r) {
  kv_output_sums s = grade_outputs(r);
  char a[NUMBER], b[NUMBER];
  if (!r->outputs || !s.rows) return;
  const kv_outputs_how *how = kv_outputs_asked(r->outputs);
  fprintf(out, "%s output rows (%s): %s wrong\n", thousands(s.rows, a),
          kv_outputs_type(r->outputs), thousands(s.wrong, b));
  fprintf(out,
          "  relative L2 %.3g; %.4f%% of the elements within %g + %g x the "
          "row's largest\n",
          kv_output_relative(&s), percent(s.matched, s.elements), how->atol,
          how->rtol);
  worst(out, "difference", s.most, &s.worst);
  if (s.lses) worst(out, "LSE difference", s.lse_most, &s.lse_worst);
  if (s.lse_matched < s.lses && s.lse_other == s.lses)
    fprintf(out, "  every LSE matches as a logarithm to base %s\n",
            how->lse_base2 ? "e: leave --lse-base out" : "2: --lse-base 2");
  report_ulps(out, &s);
  wrong_rows(out, r, &s);
}

static kv_rc table(const kv_grade_report *r, FILE *out, kv_err *e) {
  char name[KV_SHOW];
  kv_row_label label;
  kv_rc rc = kv_row_label_make(r->row, &label, e);
  if (rc) return rc;
  kv_put_plain(out, r->row->trace);
  fprintf(out, ": %s", label.brief);
  if (r->row->target[0]) fprintf(out, " -b %s", r->row->target);
  fprintf(out, ", theirs: %s\n", kv_show(r->theirs->name, name));
  kv_row_label_free(&label);
  fputs("layer   decisions      equal       ties      wrong", out);
  fputs(r->outputs ? "    rel L2      most   matched\n" : "\n", out);
  for (int i = 0; i < r->layers; i++)
    line(out, &r->layer[i],
         r->outputs ? kv_outputs_layer(r->outputs, i) : NULL);
  summary(out, r);
  ties(out, r);
  wrong_decisions(out, r);
  outputs(out, r);
  return KV_OK;
}

kv_rc kv_grade_print(const kv_grade_report *r, kv_grade_format format,
                     FILE *out, kv_err *e) {
  kv_rc rc = KV_OK;
  if (format == KV_GRADES_TABLE) rc = table(r, out, e);
  if (format == KV_GRADES_JSON) grade_json(r, out);
  if (format == KV_GRADES_JUNIT) grade_junit(r, out);
  return rc ? rc : kv_flush(out, e);
}
