/* SPDX-License-Identifier: Apache-2.0
 *
 * The remark that rows of a table are of different bytes, and so say nothing
 * about which method is better. For `kvreplay run`.
 */
#ifndef KV_SIM_UNEQUAL_H
#define KV_SIM_UNEQUAL_H

#include "sim/replay/measure/result.h"

/* Looks at the rows r[n] of one trace: at each budget that is not in bytes,
 * those that ran, without dense, which everything is a share of. Where the most
 * mean bytes are more than a tenth above the least, writes a sentence with both
 * and the budget that compares fairly into line, and is true; of several
 * budgets the first. line has room for KV_UNEQUAL_LINE bytes. */
enum { KV_UNEQUAL_LINE = 400 };
bool kv_unequal_find(int n, const kv_result *const *r, char *line);

#endif
