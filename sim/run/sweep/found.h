/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets in bytes that were found once, in a file beside traces, so that
 * nobody searches for them again: traces/budgets.csv has those of the bundled
 * ones. A row is an answer of kv_batch_search under the key of its question:
 * trace identity, prompt, method with revision or code, parameters, arithmetic,
 * basis and target (sim/store/db.h). So a row of an older revision, or of
 * another file of the method, is one that nobody asks for. `kvreplay run
 * --found FILE` writes such a file, `kvreplay verify FILE` searches again for
 * each row.
 */
#ifndef KV_SIM_FOUND_H
#define KV_SIM_FOUND_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

#define KV_FOUND_NAME "budgets.csv" /* of the file beside traces */

typedef struct kv_found_row {
  char *trace;   /* its path; in the file without .safetensors, and from the
                    file's folder on */
  char *spec;    /* the method, as after -m */
  int revision;  /* of the method */
  char *target;  /* as after -b: "mean:20%" */
  int32_t value; /* of the knob (kv_knob_value) */
  int64_t bytes; /* -1: that value fits. Else none does: what `value`, the least
                    legal one, takes */
  int64_t dense; /* and what dense takes; -1 as bytes */
  char key[33];  /* the first 32 digits of kv_db_budget_key */
} kv_found_row;

typedef struct kv_found { /* zeroed: none */
  int n;
  kv_found_row *row; /* [n] in the order of the file */
} kv_found;

/* *is: the file begins as such a file does. False, too, where it cannot be
 * read. */
bool kv_found_is(const char *path);
/* Reads it. KV_INPUT: it is none, or a line is wrong; KV_RESOURCE: memory. Free
 * *out, also after a failure. */
kv_rc kv_found_read(const char *path, kv_found *out, kv_err *e);
/* Reads KV_FOUND_NAME in the folder of the file `path`, else in the one above;
 * where neither has such a file *out is empty. */
kv_rc kv_found_beside(const char *path, kv_found *out, kv_err *e);
/* The row of a key, 64 or 32 hex digits; NULL: none. */
const kv_found_row *kv_found_of(const kv_found *f, const char *key);
/* Adds a copy of the row and of its texts. KV_RESOURCE: memory. */
kv_rc kv_found_add(kv_found *f, const kv_found_row *row, kv_err *e);
/* Writes the file, whole or not at all. KV_USAGE, KV_RESOURCE: it cannot be. */
kv_rc kv_found_write(const kv_found *f, const char *path, kv_err *e);
void kv_found_free(kv_found *f); /* accepts zeroed */

#endif
