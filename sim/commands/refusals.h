/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command that opens cells says of those that were refused, when all is
 * done: the last line on standard error, and the exit code. Read off the cells
 * of a job, which stay open until then; nobody counts on the way.
 */
#ifndef KV_SIM_REFUSALS_H
#define KV_SIM_REFUSALS_H

#include "sim/commands/job.h"

/* Call it last, from a task's `conclude`, while the job's cells are open.
 * Prints the line "2 of 9 cells refused: METHOD (reason); METHOD (reason)",
 * each method with the first of its reasons, if any cell was refused; nothing
 * is to be printed after it. Returns the exit code of the command: `code` where
 * that is not KV_OK (something worse, which was reported before); else KV_USAGE
 * where `nothing`, no cell could run at all, which the line calls `what` ("no
 * cell could run"); KV_INPUT for a method that was named, not by `all`, and has
 * cells of which none can run, here or in another shard, or with --strict for
 * any refusal; else KV_OK. */
int kv_refusals_conclude(kv_job *s, int code, bool nothing, const char *what);

/* The row --strict of such commands' option tables; their struct begins with a
 * kv_cells_options. */
#define KV_OPTION_STRICT                                                       \
  {                                                                            \
    .slot = KV_SLOT_FLAG, .name = "strict",                                    \
    .offset = offsetof(kv_cells_options, strict),                              \
    .help = "exit with 3 if any cell is refused; else only a method that is "  \
            "named and gets no cell at all is a failure"                       \
  }

#endif
