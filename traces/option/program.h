/* SPDX-License-Identifier: Apache-2.0
 *
 * A program as a table of commands (traces/option/option.h), and its main. Data
 * goes to standard output; messages, one line each, to standard error. Exit
 * codes: ref/ground/err.h, and 130 when interrupted.
 */
#ifndef KV_TRACES_PROGRAM_H
#define KV_TRACES_PROGRAM_H

#include "traces/option/option.h"
#include <stdio.h>

enum { KV_MOST_COMMANDS = 16, KV_EXIT_INTERRUPTED = 130 };

typedef struct kv_program {
  const char *name;
  kv_command alone;                  /* without a command: its name is NULL */
  const kv_command *const *commands; /* ends with NULL */
  const kv_example *environment;     /* variables; ends with line NULL */
  /* Commands that another package brings (traces/option/further.h), and the
   * line that installs it: told where one is asked for and not there. Ends with
   * line NULL; NULL: none. */
  const kv_example *brought;
  kv_rc (*version)(size_t size, char *lines, kv_err *e); /* further ones */
} kv_program;

/* Runs the command that argv[1] names, or answers --help and --version, and
 * flushes standard output: the exit code. Where the table has no such command
 * the process becomes the program that traces/option/further.h finds. For the
 * build, and in no help:
 * --man [COMMAND], --completion, --commands. */
int kv_command_main(const kv_program *p, int argc, char **argv);
/* Runs the command that argv[0] names, which may print: the exit code. */
int kv_command_call(const kv_program *p, int argc, char **argv);

/* Prints "PROGRAM: SENTENCE" on standard error; returns the exit code. */
int kv_say(const kv_err *e);
/* Prints a remark that is no error, in the same form. */
void kv_note(const char *text);

#endif
