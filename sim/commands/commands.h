/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of kvreplay: one table for the program, its help, the man pages
 * and the completion. Each command is called like a main: argv[0] is its name,
 * the return value is the exit code, and it may print.
 */
#ifndef KV_SIM_COMMANDS_H
#define KV_SIM_COMMANDS_H

#include "ref/kernels/kernels.h"
#include "sim/cli/help.h"

typedef struct kv_command_main {
  const kv_command *command;
  int (*run)(int argc, char **argv);
} kv_command_main;

extern const kv_command_main kv_commands[]; /* ends with command NULL */
extern const kv_command kv_command_kvreplay;

enum { KV_MOST_COMMANDS = 16 };
/* Fills out: the program's own table, then those of its commands, then NULL. */
void kv_commands_all(const kv_command *out[KV_MOST_COMMANDS]);

/* Prints "kvreplay: SENTENCE" on standard error; returns the exit code. */
int kv_say(const kv_err *e);
/* Prints a remark that is no error, in the same form. */
void kv_note(const char *text);

/* The kernel set that KVREPLAY_ISA names, else the best one here; prints a
 * remark if there is one. */
kv_rc kv_command_kernels(const kv_kernels **out, kv_err *e);

/* Prints what --help or --version asked for; c NULL: the program itself. */
int kv_command_answer(kv_asked asked, const kv_command *c);

/* Each is in sim/commands/command_NAME.c. */
int kv_main_check(int argc, char **argv);
int kv_main_grade(int argc, char **argv);
int kv_main_lawcheck(int argc, char **argv);
int kv_main_methods(int argc, char **argv);
int kv_main_new(int argc, char **argv);
int kv_main_run(int argc, char **argv);
int kv_main_vectors(int argc, char **argv);
int kv_main_verify(int argc, char **argv);

#endif
