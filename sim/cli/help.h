/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes --help, man pages and completion from the option tables (kv_command),
 * so that none of them can differ from the parser. Nothing returns an error:
 * check ferror(out).
 */
#ifndef KV_SIM_HELP_H
#define KV_SIM_HELP_H

#include "sim/cli/option.h"
#include <stdio.h>

/* Commands of a program: the first is the program itself (name NULL), the
 * others its commands; ends with NULL. */
typedef const kv_command *const *kv_command_list;

/* Prints --help: examples first, then options, wrapped to 80 columns. all: for
 * the program itself, whose commands are listed; NULL for a command. */
void kv_help_print(FILE *out, const kv_command *c, kv_command_list all);

/* Writes a man page, section 1: roff(7) with man(7) macros. */
void kv_help_man(FILE *out, const kv_command *c, kv_command_list all);

/* Writes completion for bash. methods: names to complete SPEC arguments with;
 * ends with NULL. */
void kv_help_completion(FILE *out, kv_command_list all,
                        const char *const *methods);

/* Prints text broken into lines of at most 80 columns and a final newline. The
 * first line begins at column `at`, further ones are indented by `indent`. */
void kv_help_wrap(FILE *out, int indent, int at, const char *text);

#endif
