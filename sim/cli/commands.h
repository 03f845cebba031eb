/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of kvreplay as one table, kv_kvreplay, from which the program,
 * its help, the man pages and the completion are made (kv_command and kv_task:
 * traces/option/option.h). A command x is two tables in command_x.c:
 * kv_command_x, its options and texts, and a kv_task, its work.
 */
#ifndef KV_SIM_COMMANDS_H
#define KV_SIM_COMMANDS_H

#include "traces/option/kernels.h"
#include <limits.h>
#include <stddef.h>

/* The program: its name, its commands in the order of help, its texts. For
 * kv_command_main, man pages and completion. */
extern const kv_program kv_kvreplay;

/* Runs one command as the program would, for tests. Called like main: argv[0]
 * is the command's name ("run"), argv[1..argc-1] its arguments. Returns the
 * exit code (0 to 5, or 130 after an interrupt). Prints what the command
 * prints. */
int kv_commands_call(int argc, char **argv);

extern const kv_command kv_command_check, kv_command_grade, kv_command_lawcheck,
    kv_command_lengths, kv_command_methods, kv_command_new, kv_command_run,
    kv_command_tune, kv_command_vectors, kv_command_verify;

#endif
