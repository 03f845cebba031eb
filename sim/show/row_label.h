/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a row's method in a table. Brief: the name and the parameters
 * that differ from their defaults. Full: also those that open worked out. The
 * budget has its own column.
 */
#ifndef KV_SIM_ROW_LABEL_H
#define KV_SIM_ROW_LABEL_H

#include "ref/ground/err.h"
#include "sim/measure/result.h"

typedef struct kv_row_label {
  char *brief, *full;
  bool ambiguous; /* another row has the same brief label: show `full` */
} kv_row_label;

kv_rc kv_row_label_make(const kv_result *r, kv_row_label *out, kv_err *e);
void kv_row_label_free(kv_row_label *l);

#endif
