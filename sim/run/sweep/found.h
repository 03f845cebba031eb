/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of earlier searches for budgets in bytes, in a file next to traces,
 * so that nobody searches again: traces/budgets.csv has those for the bundled
 * traces. A row is a result of kv_batch_search under the key of its search:
 * trace identity, prompt, method with revision or code, parameters, arithmetic,
 * basis and target (sim/store/db.h). So a row for an older revision, or for
 * another file of the method, is never used. `kvreplay run --found FILE` writes
 * such a file; `kvreplay verify FILE` searches again for each row.
 */
#ifndef KV_SIM_FOUND_H
#define KV_SIM_FOUND_H

#include "ref/ground/err.h"
#include <stdbool.h>
#include <stdint.h>

#define KV_FOUND_NAME "budgets.csv" /* of the file next to traces */

typedef struct kv_found_row {
  char *trace;   /* its path; in the file without .safetensors, and relative to
                    the file's folder */
  char *spec;    /* the method, as after -m */
  int revision;  /* of the method */
  char *target;  /* as after -b: "mean:20%" */
  int32_t value; /* of the knob (kv_knob_value) */
  int64_t bytes; /* -1: that value fits. Else none does, and this is what
                    `value`, the smallest legal one, takes */
  int64_t dense; /* what dense then takes; -1 as bytes */
  char key[33];  /* the first 32 digits of kv_db_budget_key */
} kv_found_row;

typedef struct kv_found { /* zeroed: none */
  int n;
  kv_found_row *row; /* [n] in the order of the file */
} kv_found;

/* Is it such a file, by its beginning? False if it cannot be read. */
bool kv_found_is(const char *path);
/* Reads it. KV_INPUT: it is not such a file, or a line is wrong. KV_RESOURCE:
 * memory. Free *out, also after a failure. */
kv_rc kv_found_read(const char *path, kv_found *out, kv_err *e);
/* Reads KV_FOUND_NAME in the folder of the file `path`, else in the folder
 * above; *out is empty if neither has it. */
kv_rc kv_found_beside(const char *path, kv_found *out, kv_err *e);
/* The row with a key of 64 or 32 hex digits, or NULL. */
const kv_found_row *kv_found_of(const kv_found *f, const char *key);
/* Adds a copy of the row and of its texts. KV_RESOURCE: memory. */
kv_rc kv_found_add(kv_found *f, const kv_found_row *row, kv_err *e);
/* Writes the file, whole or not at all. KV_USAGE, KV_RESOURCE: it cannot. */
kv_rc kv_found_write(const kv_found *f, const char *path, kv_err *e);
void kv_found_free(kv_found *f); /* accepts zeroed */

#endif
