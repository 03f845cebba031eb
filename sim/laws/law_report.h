/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `kvreplay lawcheck`: an answer for each law, specification,
 * trace and budget. The table prints broken laws at once and counts the rest at
 * the end; JSON is an array that grows answer by answer; JUnit's XML is written
 * by close, when counts are known.
 */
#ifndef KV_SIM_LAW_REPORT_H
#define KV_SIM_LAW_REPORT_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdio.h>

typedef enum kv_law_format {
  KV_LAWS_TABLE,
  KV_LAWS_JSON,
  KV_LAWS_JUNIT
} kv_law_format;

typedef enum kv_law_outcome {
  KV_LAW_HOLDS,
  KV_LAW_BROKEN,
  KV_LAW_REFUSED /* cannot be checked here: see reason */
} kv_law_outcome;
enum { KV_LAW_OUTCOMES = 3 };

/* Texts are copied. */
typedef struct kv_law_answer {
  const char *law, *spec, *trace;
  int entries; /* the budget; -1: none */
  kv_law_outcome outcome;
  const char *reason; /* unless it holds */
  const char *again;  /* if broken: the command that checks this alone */
} kv_law_answer;

typedef struct kv_law_report {
  kv_law_format format;
  bool quiet; /* the table prints broken laws only, no counts */
  FILE *out;
  int n, room;
  kv_law_answer *answer; /* [n] */
  int count[KV_LAW_OUTCOMES];
} kv_law_report;

void kv_law_report_open(kv_law_format format, bool quiet, FILE *out,
                        kv_law_report *r);
/* KV_RESOURCE: out cannot be written, or there is no memory. */
kv_rc kv_law_report_add(kv_law_report *r, const kv_law_answer *a, kv_err *e);
/* Number of answers of a law with an outcome. */
int kv_law_report_count(const kv_law_report *r, const char *law,
                        kv_law_outcome outcome);
/* Ends the stream and frees, also on failure. laws[n]: those that were checked,
 * whose counts the table prints if nothing is broken. */
kv_rc kv_law_report_close(kv_law_report *r, int n, const char *const *laws,
                          kv_err *e);

#endif
