/* SPDX-License-Identifier: Apache-2.0
 *
 * Table and JUnit of a grading: sim/grade_report.h.
 */
#include "sim/grade_report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "sim/row_label.h"
#include "sim/xml.h"
#include "traces/text.h"

enum { NUMBER = 32 };

int64_t kv_grade_count(const kv_grade_report *r, kv_grade grade) {
  int64_t n = 0;
  for (int i = 0; i < r->layers; i++) n += r->layer[i].count[grade];
  return n;
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

/* 163,840 */
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

static const kv_judged *first_wrong(const kv_grade_report *r) {
  for (int i = 0; i < r->layers; i++)
    if (r->layer[i].count[KV_GRADE_WRONG]) return &r->layer[i].first;
  return NULL;
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

static void outputs(FILE *out, const kv_grade_report *r) {
  kv_output_sums s = kv_grade_outputs(r);
  char a[NUMBER], b[NUMBER], text[KV_OUTPUT_TEXT];
  double atol, rtol;
  if (!r->outputs || !s.rows) return;
  kv_outputs_tolerance(r->outputs, &atol, &rtol);
  fprintf(out, "%s output rows (%s): %s wrong\n", thousands(s.rows, a),
          kv_outputs_type(r->outputs), thousands(s.wrong, b));
  fprintf(out,
          "  relative L2 %.3g; %.4f%% of the elements within %g + %g x "
          "|ours|\n",
          kv_output_relative(&s), percent(s.matched, s.elements), atol, rtol);
  worst(out, "difference", s.most, &s.worst);
  if (s.lses) worst(out, "LSE difference", s.lse_most, &s.lse_worst);
  ulps(out, &s);
  if (s.wrong)
    fprintf(out, "first wrong output: %s\n", kv_output_text(&s.first, text));
}

static kv_rc table(const kv_grade_report *r, FILE *out, kv_err *e) {
  char text[KV_VERDICT_TEXT], name[KV_SHOW];
  kv_row_label label;
  kv_rc rc = kv_row_label_make(r->row, &label, e);
  if (rc) return rc;
  fprintf(out, "%s: %s", r->row->trace, label.brief);
  if (r->row->target[0]) fprintf(out, " -b %s", r->row->target);
  fprintf(out, ", theirs: %s\n", kv_show(r->theirs->name, name));
  kv_row_label_free(&label);
  fputs("layer   decisions      equal       ties      wrong", out);
  fputs(r->outputs ? "    rel L2      most   matched\n" : "\n", out);
  for (int i = 0; i < r->layers; i++)
    line(out, &r->layer[i],
         r->outputs ? kv_outputs_layer(r->outputs, i) : NULL);
  summary(out, r);
  const kv_judged *wrong = first_wrong(r);
  if (wrong)
    fprintf(out, "first wrong: %s\n",
            kv_judged_text(wrong, r->tie, r->page, text));
  outputs(out, r);
  return KV_OK;
}

/* --- JUnit -------------------------------------------------------------- */

static void testcase(const kv_grade_report *r, int i, FILE *out) {
  const kv_graded_layer *l = &r->layer[i];
  const kv_output_sums *s = r->outputs ? kv_outputs_layer(r->outputs, i) : NULL;
  char text[KV_VERDICT_TEXT];
  bool wrong = l->count[KV_GRADE_WRONG] > 0;
  fputs("  <testcase", out);
  kv_xml_attribute(out, "classname", r->row->trace);
  fputs(" name=\"", out);
  kv_xml_escape(out, r->row->spec);
  fprintf(out, " layer %d\"", l->layer);
  if (!wrong && !(s && s->wrong)) {
    fputs("/>\n", out);
    return;
  }
  fputs(">\n    <failure", out);
  kv_xml_attribute(out, "message",
                   wrong ? kv_judged_text(&l->first, r->tie, r->page, text)
                         : kv_output_text(&s->first, text));
  fputs("/>\n  </testcase>\n", out);
}

static void junit(const kv_grade_report *r, FILE *out) {
  int failures = 0;
  for (int i = 0; i < r->layers; i++)
    failures += r->layer[i].count[KV_GRADE_WRONG] ||
                (r->outputs && kv_outputs_layer(r->outputs, i)->wrong);
  fprintf(out,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<testsuite name=\"kvreplay grade\" tests=\"%d\" failures=\"%d\" "
          "errors=\"0\" skipped=\"0\">\n",
          r->layers, failures);
  for (int i = 0; i < r->layers; i++) testcase(r, i, out);
  fputs("</testsuite>\n", out);
}

kv_rc kv_grade_print(const kv_grade_report *r, kv_grade_format format,
                     FILE *out, kv_err *e) {
  kv_rc rc = KV_OK;
  if (format == KV_GRADES_TABLE) rc = table(r, out, e);
  if (format == KV_GRADES_JSON) kv_grade_json(r, out);
  if (format == KV_GRADES_JUNIT) junit(r, out);
  if (rc || (fflush(out) == 0 && !ferror(out))) return rc;
  return kv_fail(e, KV_RESOURCE, "the grades could not be written: %s",
                 strerror(errno));
}
