/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `kvreplay grade`: a line for each layer, a summary, and the
 * first wrong decision in full; as a table for people, one JSON object, or
 * JUnit's XML with a test case for each layer.
 */
#ifndef KV_SIM_GRADE_REPORT_H
#define KV_SIM_GRADE_REPORT_H

#include <stdio.h>

#include "sim/run/grade/grade.h"

typedef enum kv_grade_format {
  KV_GRADES_TABLE,
  KV_GRADES_JSON,
  KV_GRADES_JUNIT
} kv_grade_format;

/* What to print: the results of a grading (kv_grading_layers) and their
 * context. Everything is borrowed. A zeroed report has nothing wrong. */
typedef struct kv_grade_report {
  const kv_result *row;            /* trace, method and budget of the cell */
  const kv_decisions_file *theirs; /* their decisions, for the name */
  double tie;                      /* used, as a share of the cut */
  bool follow_ours; /* the replay continued with ours, not with theirs */
  bool all;         /* list everything wrong, not only the first */
  int page;         /* tokens per item in their file: 1, or those of a page */
  int layers;
  const kv_graded_layer *layer; /* [layers] */
  const kv_outputs *outputs;    /* their outputs, compared; or NULL */
} kv_grade_report;

/* Prints the report as a table, JSON or JUnit's XML, and flushes out.
 * KV_RESOURCE: out cannot be written, or memory. */
kv_rc kv_grade_print(const kv_grade_report *r, kv_grade_format format,
                     FILE *out, kv_err *e);

/* Is any decision, or any row of the outputs, wrong? */
bool kv_grade_failed(const kv_grade_report *r);

#endif
