/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a grading: contract in sim/grade/grade_report.h.
 */
#include "sim/grade/grade_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/show/row_label.h"
#include "traces/text/text.h"

enum { NUMBER = 32 };

int64_t kv_grade_count(const kv_grade_report *r, kv_grade grade) {
  int64_t n = 0;
  for (int i = 0; i < r->layers; i++) n += r->layer[i].count[grade];
  return n;
}

double kv_grade_least_tie(const kv_grade_report *r, int64_t *never) {
  double most = 0;
  *never = 0;
  for (int i = 0; i < r->layers; i++) {
    most = fmax(most, r->layer[i].least_tie);
    *never += r->layer[i].never_ties;
  }
  return most;
}

kv_output_sums kv_grade_outputs(const kv_grade_report *r) {
  kv_output_sums all = {0};
  for (int i = 0; r->outputs && i < r->layers; i++)
    kv_output_add(kv_outputs_layer(r->outputs, i), &all);
  return all;
}

bool kv_grade_failed(const kv_grade_report *r) {
  return kv_grade_count(r, KV_GRADE_WRONG) || kv_grade_outputs(r).wrong;
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
    all += of[k] = kv_grade_count(r, (kv_grade)k);
  fprintf(out, "%s decision%s: %s equal, %s tie%s, %s wrong\n",
          thousands(all, n[KV_GRADES]), all == 1 ? "" : "s",
          thousands(of[0], n[0]), thousands(of[1], n[1]), of[1] == 1 ? "" : "s",
          thousands(of[2], n[2]));
}

/* Prints which --tie would make all differences ties, if any would. */
static void ties(FILE *out, const kv_grade_report *r) {
  int64_t never, all = 0;
  double least = kv_grade_least_tie(r, &never);
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

static void ulps(FILE *out, const kv_output_sums *s) {
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
  kv_output_sums s = kv_grade_outputs(r);
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
  ulps(out, &s);
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
  if (format == KV_GRADES_JSON) kv_grade_json(r, out);
  if (format == KV_GRADES_JUNIT) kv_grade_junit(r, out);
  if (rc || (fflush(out) == 0 && !ferror(out))) return rc;
  return kv_fail(e, KV_RESOURCE, "the grades could not be written: %s",
                 strerror(errno));
}
