/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts for people and programs: the result of one cell on one backend, as
 * `kvreplay check` and `verify` print it. JSON and JSON lines appear verdict by
 * verdict; the table and JUnit's XML are written by close, when widths and
 * counts are known.
 */
#ifndef KV_SIM_VERDICT_H
#define KV_SIM_VERDICT_H

#include "sim/compare/compare.h"
#include <stdio.h>

typedef enum kv_verdict_format {
  KV_VERDICTS_TABLE,
  KV_VERDICTS_JSON, /* one array */
  KV_VERDICTS_JSONL,
  KV_VERDICTS_JUNIT
} kv_verdict_format;

typedef enum kv_outcome {
  KV_EQUAL,
  KV_DIFFERS,
  KV_NOT_RUN, /* refused: the row says why, or `absent` is set */
  KV_GAVE_UP, /* failed on the first backend, or the device of the other had no
                 memory for it: `difference` says which failed */
  /* For a stored row that was not run again; `difference` says why: */
  KV_NOT_FOUND, /* its trace, plugin or file was not found */
  KV_SUPERSEDED /* other code computed it */
} kv_outcome;
enum { KV_OUTCOMES = 6 };

extern const char *const kv_outcome_names[KV_OUTCOMES];

typedef struct kv_verdict {
  const kv_result *row; /* the first backend's; must outlive the writer */
  const char *first, *backend; /* first: a backend, or "database" */
  kv_outcome outcome;
  bool absent;              /* this backend does not have the method */
  kv_difference difference; /* what differs, or which failed */
} kv_verdict;

/* The outcome as text: "equal", or the sentence. Lives as long as v. */
const char *kv_verdict_text(const kv_verdict *v);

/* The choices of the option -f. */
#define KV_VERDICT_FORMATS "table|json|jsonl|junit"

typedef struct kv_verdicts {
  kv_verdict_format format;
  const char *suite; /* "kvreplay check" */
  char closing[256]; /* the table's last line; "": counts of outcomes */
  FILE *out;
  int n, room;
  kv_verdict *verdict; /* [n] */
  int count[KV_OUTCOMES];
} kv_verdicts;

void kv_verdicts_open(kv_verdict_format format, const char *suite, FILE *out,
                      kv_verdicts *w);
/* KV_RESOURCE: out cannot be written, or there is no memory. */
kv_rc kv_verdicts_add(kv_verdicts *w, const kv_verdict *v, kv_err *e);
/* Ends the stream, flushes and frees, also on failure. */
kv_rc kv_verdicts_close(kv_verdicts *w, kv_err *e);
/* Frees without writing anything: for a failure before the first verdict. */
void kv_verdicts_drop(kv_verdicts *w);

/* The formats that are written at the end: verdict_table.c, verdict_junit.c. */
kv_rc kv_verdicts_table(const kv_verdicts *w, kv_err *e);
void kv_verdicts_junit(const kv_verdicts *w);

#endif
