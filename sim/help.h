/* SPDX-License-Identifier: Apache-2.0
 *
 * What the option tables say to people: --help, man pages, completion. All
 * three come from kv_command, so they cannot drift from the parser. Nothing
 * fails here; look at ferror(out).
 */
#ifndef KV_SIM_HELP_H
#define KV_SIM_HELP_H

#include "sim/option.h"
#include <stdio.h>

/* Commands of a program: the first is the program itself (verb NULL), the
 * others its verbs; ends with NULL. */
typedef const kv_command *const *kv_command_list;

/* Examples first, then options, wrapped to 80 columns. all: for the program
 * itself, its verbs are listed; NULL for a verb. */
void kv_help_print(FILE *out, const kv_command *c, kv_command_list all);

/* roff(7) with man(7) macros, section 1. */
void kv_help_man(FILE *out, const kv_command *c, kv_command_list all);

/* Bash. methods: names for SPEC arguments; ends with NULL. */
void kv_help_completion(FILE *out, kv_command_list all,
                        const char *const *methods);

/* Text in words from column `at` on, further lines indented by `indent`, at
 * most 80 columns, ended by a newline. */
void kv_help_wrap(FILE *out, int indent, int at, const char *text);

#endif
