/* SPDX-License-Identifier: Apache-2.0
 *
 * A remark for `kvreplay run` that rows of a table have different bytes, and so
 * do not show which method is better.
 */
#ifndef KV_SIM_UNEQUAL_H
#define KV_SIM_UNEQUAL_H

#include "sim/replay/measure/result.h"

/* Looks at the rows r[n] of one trace: at each budget that is not in bytes,
 * the rows that ran, without dense. If the largest and smallest mean bytes
 * differ by more than a tenth of the largest, writes a sentence with both, and
 * with a budget that compares fairly, into line[KV_UNEQUAL_LINE], and returns
 * true. Reports the first such budget. */
enum { KV_UNEQUAL_LINE = 400 };
bool kv_unequal_find(int n, const kv_result *const *r, char *line);

#endif
