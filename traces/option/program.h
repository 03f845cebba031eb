/* SPDX-License-Identifier: Apache-2.0
 *
 * A program as a table of commands (traces/option/option.h), and its main: the
 * mains of kvreplay, kvreport and kvtrace do little more than call
 * kv_command_main. Data goes to standard output, one-line messages to standard
 * error. Exit codes are those of ref/ground/err.h, and 130 after an interrupt.
 */
#ifndef KV_TRACES_PROGRAM_H
#define KV_TRACES_PROGRAM_H

#include "traces/option/option.h"
#include <stdio.h>

enum {
  KV_MOST_COMMANDS = 32,    /* of a program, its own and others */
  KV_EXIT_INTERRUPTED = 130 /* the exit code after SIGINT or SIGTERM */
};

/* A command that is in another program (traces/option/further.h). */
typedef struct kv_brought {
  const char *name;
  const char *does;    /* half a sentence, as a command's summary */
  const char *install; /* what to type if it is missing */
  const char *program; /* which has the command; NULL: PROGRAM-NAME is it */
} kv_brought;

typedef struct kv_program {
  const char *name;                  /* begins every message */
  kv_command alone;                  /* the program without a command, name
                                        NULL; for --help and --version */
  const kv_command *const *commands; /* ends with NULL */
  const kv_example *environment;     /* variables and their effect, for the man
                                        page; ends with line NULL; NULL: none */
  const kv_brought *brought;         /* ends with name NULL; NULL: none */
  const kv_example *groups; /* of --help: a heading (line) and its commands
                               (does: "run tune"); NULL: one group of all */
  const char *also; /* a program with the same commands, or NULL: started as
                       ALSO-COMMAND, this one calls itself ALSO */
  /* Adds lines to --version, into lines[size]; NULL: there are none. */
  kv_rc (*version)(size_t size, char *lines, kv_err *e);
} kv_program;

/* The body of main: runs the command that argv[1] names, or answers --help and
 * --version, and flushes standard output. Returns the exit code after printing
 * any failure. If the table has no such command, the process becomes the
 * program that traces/option/further.h finds. The build also calls it with
 * --man [COMMAND], --completion and --commands, which help does not list. */
int kv_command_main(const kv_program *p, int argc, char **argv);

/* Runs the command that argv[0] names: parses, works, prints its data and its
 * error. Returns the exit code. Used by kv_command_main, and by a command that
 * runs another. If the table has no such command: as kv_command_main. */
int kv_command_call(const kv_program *p, int argc, char **argv);

/* Prints "PROGRAM: SENTENCE" on standard error; returns e->rc, the exit code.
 */
int kv_say(const kv_err *e);
/* Prints a remark that is no error, in the same form. PROGRAM is the name in
 * the last kv_program passed to kv_command_main or kv_command_call. */
void kv_note(const char *text);

#endif
