/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a database that `kvreplay verify` is to run again, and the reason
 * why it cannot run the others: something they need is missing, or other code
 * computed them. Rows that were refused or failed have no digests and are
 * skipped. No code that a database names is ever loaded.
 */
#ifndef KV_SIM_VERIFY_H
#define KV_SIM_VERIFY_H

#include "sim/compare/compare.h"
#include "sim/sweep/batch.h"
#include "traces/option/option.h"

/* Whether a row can be run again, or what it lacks. */
typedef enum kv_verifiable {
  KV_VERIFY_RUNS,
  KV_VERIFY_NO_TRACE,  /* known once it was looked for */
  KV_VERIFY_NO_PLUGIN, /* none in the folders of KVREPLAY_PLUGINS */
  KV_VERIFY_NO_FILE,   /* the file that its method reads */
  KV_VERIFY_OTHER_CODE /* an older revision, another plugin or another file */
} kv_verifiable;
enum { KV_VERIFIABLES = 5 };

typedef struct kv_verify_row {
  char key[65];  /* of the database: SHA-256 in hex */
  kv_result row; /* without layers, parts and steps */
  kv_verifiable can;
  char why[320]; /* why it cannot be run; "": it can */
} kv_verify_row;

typedef struct kv_verify_rows {
  int n, room;
  kv_verify_row *row; /* [n] by trace, prompt length, key */
} kv_verify_rows;

/* Reads all rows that ran, and sets what can be known of each without its
 * trace. Names of methods live as long as db. KV_RESOURCE: memory; KV_INPUT:
 * the database is damaged. Free, also after a failure. */
kv_rc kv_verify_rows_read(kv_db *db, kv_verify_rows *out, kv_err *e);
void kv_verify_rows_free(kv_verify_rows *r);
/* True if row i is the first that cannot be run for its reason; *cells then
 * counts all rows with that reason, for one message. */
bool kv_verify_first_of(const kv_verify_rows *r, int i, int *cells);

/* verify_trace.c: finds the trace of the row's identity, where it was seen
 * before, then in the folders, and writes its path into path[0..size); "" if it
 * is nowhere, which is KV_OK. KV_RESOURCE: memory or the database. */
kv_rc kv_verify_trace(kv_db *db, const kv_list *folders, const kv_verify_row *v,
                      size_t size, char *path, kv_err *e);

/* If the row's method reads a file that lies beside the trace: true if it is
 * there and the same; otherwise v->can and v->why say what is wrong. c: the
 * row's cell, opened on the trace. */
bool kv_verify_beside(kv_verify_row *v, const kv_cell *c);

/* The trace of row `of` was not found: marks all rows of that trace
 * KV_VERIFY_NO_TRACE. */
void kv_verify_no_trace(kv_verify_rows *r, const kv_result *of);

/* verify_cell.c: sets the cell up as the row, so that the key and all
 * parameters are equal. KV_DIFFERENT: it cannot be, with the sentence. */
kv_rc kv_verify_set_up(const kv_verify_row *v, kv_cell *c, kv_err *e);
/* Finds the first layer and digest of the row that differ from those of `now`;
 * "values" if all digests agree. */
kv_rc kv_verify_name(kv_db *db, const kv_verify_row *v, const kv_result *now,
                     kv_difference *out, kv_err *e);

#endif
