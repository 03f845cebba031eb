/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --together`: the cells of one method and budget over all traces
 * are requests that share a pool (sim/layout/together.h).
 */
#ifndef KV_SIM_TOGETHER_CELLS_H
#define KV_SIM_TOGETHER_CELLS_H

#include "sim/commands/job.h"
#include "sim/layout/together.h"

/* Call it once the job's cells are open, before anything is replayed. how:
 * bytes of the pool, steps between arrivals, threads. KV_USAGE: the traces are
 * not of one model, or the pool is smaller than any request. */
kv_rc kv_together_check(const kv_job *s, const kv_together *how, kv_err *e);
/* Call it after all traces were replayed: lets the requests of each method and
 * budget go step by step over one pool, fills `together` of every row, says on
 * standard error which request was refused, and stores what pools held if there
 * is a database. *served: some request found room to its end. KV_RESOURCE:
 * memory or the database. */
kv_rc kv_together_cells(kv_job *s, const kv_together *how, bool *served,
                        kv_err *e);
/* After that, for people: prints requests and their pool below the table of
 * rows. KV_RESOURCE: out cannot be written. */
kv_rc kv_together_print(const kv_job *s, FILE *out, kv_err *e);

#endif
