/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `kvreplay lawcheck`: an answer for each law, specification,
 * trace and budget. Open, add each answer, close. The table prints broken laws
 * at once or, if there is none, how often each law held at the end. JSON is an
 * array that grows answer by answer. Close writes JUnit's XML, when counts are
 * known.
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
  KV_LAW_REFUSED /* cannot be checked on this cell */
} kv_law_outcome;
enum { KV_LAW_OUTCOMES = 3 };

/* One answer; texts are copied by add. */
typedef struct kv_law_answer {
  const char *law;   /* its name */
  const char *spec;  /* the method as typed, with the choice that was tried */
  const char *trace; /* a path, or made:NAME */
  int entries;       /* the budget in entries a lane; -1: none */
  kv_law_outcome outcome;
  const char *reason; /* a sentence, unless it holds; or NULL */
  const char
      *again; /* if broken: the command that checks this alone; or NULL */
} kv_law_answer;

typedef struct kv_law_report {
  kv_law_format format;
  bool quiet; /* the table prints broken laws only, no counts */
  FILE *out;  /* borrowed */
  int n, room;
  kv_law_answer *answer;      /* [n] of room, owned, texts too */
  int count[KV_LAW_OUTCOMES]; /* answers by outcome */
} kv_law_report;

/* Makes *r an empty report to out. Close it, also after a failure. */
void kv_law_report_open(kv_law_format format, bool quiet, FILE *out,
                        kv_law_report *r);
/* Adds an answer, and prints it if the format prints at once. KV_RESOURCE: out
 * cannot be written, or there is no memory. */
kv_rc kv_law_report_add(kv_law_report *r, const kv_law_answer *a, kv_err *e);
/* How many answers there are of a law, by name, with an outcome. */
int kv_law_report_count(const kv_law_report *r, const char *law,
                        kv_law_outcome outcome);
/* Prints what is left, flushes out and frees the answers, also on failure; the
 * counts stay. laws: [n] names of the laws that were checked, whose counts the
 * table prints if nothing is broken. KV_RESOURCE: out cannot be written. */
kv_rc kv_law_report_close(kv_law_report *r, int n, const char *const *laws,
                          kv_err *e);

#endif
