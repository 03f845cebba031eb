/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a row's method in tables and file names: without the budget,
 * which has its own column. A row with a method or parameter that this program
 * does not have is named by its specification, as stored.
 */
#ifndef KV_SIM_ROW_LABEL_H
#define KV_SIM_ROW_LABEL_H

#include "ref/ground/err.h"
#include "sim/replay/measure/result.h"

typedef struct kv_row_label {
  char *brief; /* "snapkv:window=16": the name, and the parameters that differ
                  from their defaults; or the label that the user, or the
                  method's file, gave */
  char *full;  /* also the parameters that opening resolved */
  bool ambiguous; /* set by a caller if another row has the same brief label but
                     a different full one: show `full` */
} kv_row_label;

/* Makes the label of a result, complete or not; both texts are the label's.
 * Free it with kv_row_label_free. KV_RESOURCE: memory; *out is then empty. e
 * may be NULL. */
kv_rc kv_row_label_make(const kv_result *r, kv_row_label *out, kv_err *e);
void kv_row_label_free(kv_row_label *l); /* accepts NULL and zeroed */

#endif
