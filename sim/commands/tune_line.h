/* SPDX-License-Identifier: Apache-2.0
 *
 * The best point of `kvreplay tune` as a command line that can be pasted into a
 * shell.
 */
#ifndef KV_SIM_COMMANDS_TUNE_LINE_H
#define KV_SIM_COMMANDS_TUNE_LINE_H

#include "sim/commands/tune.h"

/* The line `kvreplay run TRACES -m SPEC ..` that replays a method's best point
 * as it was tuned, quoted for a shell. The method has a best point. Freed with
 * free(); NULL if memory ends. */
char *kv_tuning_line(const kv_tuning *s, const kv_tuned *m);
/* The same line as one remark, safe for a terminal: "best: LINE". Freed with
 * free(); NULL if memory ends. */
char *kv_tuning_note(const char *line);

#endif
