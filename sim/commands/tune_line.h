/* SPDX-License-Identifier: Apache-2.0
 *
 * The best point of `kvreplay tune` as a command line that can be pasted into a
 * shell.
 */
#ifndef KV_SIM_COMMANDS_TUNE_LINE_H
#define KV_SIM_COMMANDS_TUNE_LINE_H

#include "sim/commands/tune.h"

/* `kvreplay run` of a method's best point; freed with free(), NULL if memory
 * ends. */
char *kv_tuning_line(const kv_tuning *s, const kv_tuned *m);
/* The line as a remark, the same. */
char *kv_tuning_note(const char *line);

#endif
