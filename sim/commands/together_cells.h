/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --together`: the cells of one method and budget over all traces
 * are requests that share a pool (sim/layout/together.h).
 */
#ifndef KV_SIM_TOGETHER_CELLS_H
#define KV_SIM_TOGETHER_CELLS_H

#include "sim/commands/job.h"
#include "sim/layout/together.h"

/* Before anything is replayed. KV_USAGE: the traces are not of one model, or
 * the pool is smaller than any request. */
kv_rc kv_together_check(const kv_job *s, const kv_together *how, kv_err *e);
/* After all traces were replayed: fills `together` of every row, tells of every
 * request that was refused, and stores what pools held if there is a database.
 * *served: some request found room to its end. */
kv_rc kv_together_cells(kv_job *s, const kv_together *how, bool *served,
                        kv_err *e);
/* For people, below the table of rows: requests, and their pool. */
kv_rc kv_together_print(const kv_job *s, FILE *out, kv_err *e);

#endif
