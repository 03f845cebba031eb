/* SPDX-License-Identifier: Apache-2.0
 *
 * What a table calls a row's method: in brief, the name and the parameters
 * that differ from their defaults; in full, also those that were worked out
 * when the cell opened. The budget has a column of its own.
 */
#ifndef KV_SIM_ROW_LABEL_H
#define KV_SIM_ROW_LABEL_H

#include "ref/err.h"
#include "sim/result.h"

typedef struct kv_row_label {
  char *brief, *full;
  bool ambiguous; /* another row has the same brief label: show the full */
} kv_row_label;

kv_rc kv_row_label_make(const kv_result *r, kv_row_label *out, kv_err *e);
void kv_row_label_free(kv_row_label *l);

#endif
