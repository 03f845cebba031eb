/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command that opens cells says of those that were refused, when all is
 * done: the last line on standard error, and the exit code. Read off the cells
 * of a job, which stay open until then; nobody counts on the way.
 */
#ifndef KV_SIM_REFUSALS_H
#define KV_SIM_REFUSALS_H

#include "sim/commands/job.h"

/* The exit code of a command. code: of what is worse than a refusal, which has
 * been told, else KV_OK; nothing: no cell could run at all, and `what` to call
 * that ("no cell could run"). KV_INPUT for a method that was named, not by
 * `all`, and has cells and none that can run, here or in another shard, or
 * where
 * --strict is given for any refusal; KV_USAGE where no cell could run. Prints
 * the line "2 of 9 cells refused: METHOD (reason); METHOD (reason)", each
 * method with the first of its reasons; nothing is to be printed after it. */
int kv_refusals_conclude(kv_job *s, int code, bool nothing, const char *what);

/* The option of such commands, whose struct begins with a kv_cells_options. */
#define KV_OPTION_STRICT                                                       \
  {                                                                            \
    .slot = KV_SLOT_FLAG, .name = "strict",                                    \
    .offset = offsetof(kv_cells_options, strict),                              \
    .help = "exit with 3 if any cell is refused; else only a method that is "  \
            "named and gets no cell at all is a failure"                       \
  }

#endif
