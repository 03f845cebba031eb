/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay run` and `check` report at their end about refused cells: the
 * last line on standard error, and the exit code. Both come from the cells of a
 * job, which therefore stays open until then.
 */
#ifndef KV_SIM_REFUSALS_H
#define KV_SIM_REFUSALS_H

#include "sim/cli/job.h"

/* Call it last, from a task's `conclude`, while the job's cells are open; print
 * nothing after it. If any cell was refused it prints the line "2 of 9 cells
 * refused: METHOD (reason); METHOD (reason)", each method with its first
 * reason, and "; .." if the line is full. nothing: no cell could run at all;
 * unless code says something worse, the line then begins with `what` ("no cell
 * could run"), and is printed in any case.
 *
 * Returns the exit code of the command, the first that applies:
 *
 *   `code`    if not KV_OK: something worse, reported before
 *   KV_USAGE  `nothing`, without --strict (with it, and a refusal, KV_INPUT)
 *   KV_INPUT  all cells of a method that was named, not by `all`, are refused,
 *             here and in other shards; or, with --strict, any cell is
 *   KV_OK     else */
int kv_refusals_conclude(kv_job *s, int code, bool nothing, const char *what);

/* Prints, unless quiet, that rows of a table have different bytes and cannot be
 * compared, for the first trace with such rows (sim/cli/show/unequal.h). Call
 * it after all replays, before kv_refusals_conclude. */
void kv_refusals_unequal(const kv_job *s);

/* Prints, unless quiet, once for all cells, that a budget exceeds a prompt and
 * nothing was dropped. Call it like kv_refusals_unequal. */
void kv_refusals_needless(const kv_job *s);

/* The row --strict of such commands' option tables; their struct begins with a
 * kv_cells_options. */
#define KV_OPTION_STRICT                                                       \
  {                                                                            \
    .slot = KV_SLOT_FLAG, .name = "strict",                                    \
    .offset = offsetof(kv_cells_options, strict),                              \
    .help = "exit with 3 if any cell is refused; otherwise only if a named "   \
            "method gets no cell at all"                                       \
  }

#endif
