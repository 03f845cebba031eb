/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes --help, man pages and completion from the tables of a program, so
 * that none of them can differ from the parser. Nothing returns an error:
 * check ferror(out).
 */
#ifndef KV_TRACES_HELP_H
#define KV_TRACES_HELP_H

#include "traces/option/program.h"

/* Prints --help: examples first, then options, wrapped to 80 columns; of the
 * program itself (c is &p->alone) its commands and exit codes, too. */
void kv_help_print(FILE *out, const kv_program *p, const kv_command *c);

/* Writes a man page, section 1: roff(7) with man(7) macros. */
void kv_help_man(FILE *out, const kv_program *p, const kv_command *c);

/* Writes completion for bash, of all commands. */
void kv_help_completion(FILE *out, const kv_program *p);

/* Exit codes and what they mean; ends with line NULL. */
extern const kv_example kv_help_codes[];

/* Prints text broken into lines of at most 80 columns and a final newline. The
 * first line begins at column `at`, further ones are indented by `indent`. */
void kv_help_wrap(FILE *out, int indent, int at, const char *text);

#endif
