/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes --help, man pages and shell completion from the tables of a program
 * (traces/option/option.h), so that they cannot differ from the parser. Called
 * by program.c of this folder; other code that prints long text calls
 * kv_help_wrap. Nothing returns an error: check ferror(out) at the end.
 */
#ifndef KV_TRACES_HELP_H
#define KV_TRACES_HELP_H

#include "traces/option/program.h"

/* Prints --help of a command, in lines of at most 80 columns: usage, examples,
 * options and notes; unless `all`, of what kv_option.common selects. If c is
 * &p->alone, the program's: also all its commands, and the exit codes. */
void kv_help_print(FILE *out, const kv_program *p, const kv_command *c,
                   bool all);

/* Writes the man page (section 1) of a command, or of the program if c is
 * &p->alone, in roff with the macros of man(7). */
void kv_help_man(FILE *out, const kv_program *p, const kv_command *c);

/* Writes the bash completion script for all commands. */
void kv_help_completion(FILE *out, const kv_program *p);

/* The exit codes (line) and their meaning (does); ends with line NULL. */
extern const kv_example kv_help_codes[];

/* Prints text, broken at blanks into lines of at most 80 columns, and a
 * newline. The cursor is already in column `at`; further lines are indented by
 * `indent` columns. A longer word is not broken. */
void kv_help_wrap(FILE *out, int indent, int at, const char *text);

#endif
