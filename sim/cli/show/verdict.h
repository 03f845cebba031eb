/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts for people and programs: the result of one cell on one backend, as
 * `kvreplay check` and `verify` print it. Open, add each verdict, close (or
 * drop). JSON and JSON lines appear verdict by verdict; the table and JUnit's
 * XML are written by close, when widths and counts are known.
 */
#ifndef KV_SIM_VERDICT_H
#define KV_SIM_VERDICT_H

#include "sim/run/compare/compare.h"
#include <stdio.h>

typedef enum kv_verdict_format {
  KV_VERDICTS_TABLE,
  KV_VERDICTS_JSON,  /* one array */
  KV_VERDICTS_JSONL, /* an object per line */
  KV_VERDICTS_JUNIT  /* a test case per verdict */
} kv_verdict_format;

/* The result for a cell: it agrees, it differs, or why it was not compared. */
typedef enum kv_outcome {
  KV_EQUAL,
  KV_DIFFERS,
  KV_NOT_RUN, /* refused: the row says why, or `absent` is set */
  KV_GAVE_UP, /* failed on the first backend, or the other's device lacked
                 memory for it: `difference` says which */
  /* A stored row was not run again; `difference` says why: */
  KV_NOT_FOUND, /* its trace, plugin or file was not found */
  KV_SUPERSEDED /* other code computed it */
} kv_outcome;
enum { KV_OUTCOMES = 6 };

extern const char *const kv_outcome_names[KV_OUTCOMES]; /* "equal", .. */

/* One verdict. The texts outlive the writer. */
typedef struct kv_verdict {
  const kv_result *row; /* the cell on the first backend, or in the database;
                           outlives the writer */
  const char *first;    /* the other side: a backend, or "database" */
  const char *backend;  /* the backend that is compared with it */
  kv_outcome outcome;
  bool absent;              /* KV_NOT_RUN: this backend lacks the method */
  kv_difference difference; /* the difference, or a sentence why it was not
                               compared */
} kv_verdict;

/* The choices of the option -f. */
#define KV_VERDICT_FORMATS "table|json|jsonl|junit"

/* A stream of verdicts. */
typedef struct kv_verdicts {
  kv_verdict_format format;
  const char *suite; /* of JUnit: "kvreplay check" */
  char closing[256]; /* the table's last line, set before close; "": counts of
                        outcomes */
  FILE *out;         /* borrowed */
  int n, room;
  kv_verdict *verdict;    /* [n] of room, copies */
  int count[KV_OUTCOMES]; /* verdicts by outcome; stay after close */
} kv_verdicts;

/* Makes *w an empty stream to out. */
void kv_verdicts_open(kv_verdict_format format, const char *suite, FILE *out,
                      kv_verdicts *w);
/* Adds a copy of the verdict, and prints it if the format does so at once.
 * KV_RESOURCE: out cannot be written, or there is no memory. */
kv_rc kv_verdicts_add(kv_verdicts *w, const kv_verdict *v, kv_err *e);
/* Prints what is left, flushes and frees, also on failure. KV_RESOURCE: as
 * above. */
kv_rc kv_verdicts_close(kv_verdicts *w, kv_err *e);
/* Frees without writing anything: for a failure before the first verdict. */
void kv_verdicts_drop(kv_verdicts *w);

#endif
