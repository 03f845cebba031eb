/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the files that implement sim/store/evaluation.h: the handle, an
 * evaluation's key, and reading its row. Unless a comment says otherwise a
 * kv_rc is KV_OK or what kv_db_fail returns.
 */
#ifndef KV_SIM_EVALUATION_PART_H
#define KV_SIM_EVALUATION_PART_H

#include "sim/store/db_private.h"
#include "sim/store/evaluation.h"

/* Memory of the texts and numbers of a row that was read; zeroed: none. */
typedef struct kv_evaluation_read {
  int texts;
  char **text;         /* [texts] */
  int32_t *token;      /* [n_said of the row] */
  kv_evaluated *value; /* [n_values of the row] names are among the texts */
} kv_evaluation_read;

struct kv_evaluations {
  kv_db *db;
  kv_environment where;    /* this program, for confirmations */
  kv_evaluation_read last; /* of the last find */
};

/* The text, "" for NULL. */
static inline const char *kv_evaluation_text(const char *text) {
  return text ? text : "";
}
/* KV_USAGE: the caller gave no handle. */
kv_rc kv_evaluations_none(kv_err *e);

/* --- evaluation_name.c -----------------------------------------------------
 */

/* The names of an evaluation in the database: digests as 64 hex digits. */
typedef struct kv_evaluation_name {
  char key[65], model[65], question[65], platform[65];
  char code[80];            /* as kv_db_code writes it */
  int revision, arithmetic; /* of the method; 0 if r names the code */
} kv_evaluation_name;
/* Checks the inputs and computes their names. KV_USAGE: it is incomplete; or as
 * kv_spec_parse fails. */
kv_rc kv_evaluation_name_of(const kv_evaluation *r, kv_evaluation_name *out,
                            kv_err *e);

/* --- evaluation_number.c ---------------------------------------------------
 */

/* May an evaluation have a number of that name? If so, *unit and *combine are
 * set to constants (see kv_evaluation_number). */
bool kv_evaluated_is(const char *name, const char **unit, const char **combine);

/* --- db_evaluation.c -------------------------------------------------------
 */

/* *id: the evaluation's number under a key; 0: none. */
kv_rc kv_evaluation_id(kv_db *db, const char *key, int64_t *id, kv_err *e);
/* Reads the results of that evaluation into r. *to, empty before, then owns r's
 * texts and values. KV_INPUT: the file is damaged. */
kv_rc kv_evaluation_load(kv_db *db, int64_t id, kv_evaluation *r,
                         kv_evaluation_read *to, kv_err *e);
void kv_evaluation_forget(kv_evaluation_read *read); /* frees, and zeroes it */

#endif
