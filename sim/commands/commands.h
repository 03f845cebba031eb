/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of kvreplay: one table for the program, its help, the man pages
 * and the completion (traces/option/option.h).
 */
#ifndef KV_SIM_COMMANDS_H
#define KV_SIM_COMMANDS_H

#include "traces/option/kernels.h"
#include <limits.h>
#include <stddef.h>

/* The program: its name, its commands in the order of help, its words. */
extern const kv_program kv_kvreplay;

/* The initialiser of a kv_command whose operands are traces, one at least,
 * which are put into the kv_list `list` of its struct `type`. word, does: its
 * name and summary; its tables are called options, examples and notes in its
 * file. */
#define KV_COMMAND_OF_TRACES(word, does, type, list, of_task)                  \
  {                                                                            \
    .name = word, .summary = does, .operands = "TRACE...", .least = 1,         \
    .most = INT_MAX, .offset = offsetof(type, list), .use = KV_USE_READ,       \
    .options = options, .examples = examples, .notes = notes, .task = of_task  \
  }

/* Runs one command. Called like a main: argv[0] is the command's name ("run"),
 * argv[1..argc-1] its arguments, the return value is the exit code, and it
 * prints. */
int kv_commands_call(int argc, char **argv);

/* The commands, for the table. Command x with its options and its work is in
 * sim/commands/command_x.c; where its struct of options is shared by several
 * files, kv_command_x with the options is in options_x.c, and kv_task_x with
 * the work in command_x.c. */
extern const kv_command kv_command_attention, kv_command_check,
    kv_command_grade, kv_command_lawcheck, kv_command_methods, kv_command_new,
    kv_command_residuals, kv_command_run, kv_command_selection,
    kv_command_train, kv_command_tune, kv_command_vectors, kv_command_verify;
extern const kv_task kv_task_check, kv_task_grade, kv_task_lawcheck,
    kv_task_run, kv_task_tune, kv_task_verify;

#endif
