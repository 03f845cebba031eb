/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls a command of kvreplay in this process and keeps what it prints, so that
 * a test program may link its own backends. The folder of
 * tests/support/scratch.h must exist. Any failure here fails the running cmocka
 * test.
 */
#ifndef KV_TESTS_COMMAND_H
#define KV_TESTS_COMMAND_H

#include <stdarg.h>
#include <stdint.h>

/* Standard output and standard error of the last call, as texts, truncated if
 * longer. */
enum { COMMAND_LENGTH = 1 << 21 };
extern char heard[COMMAND_LENGTH], said[COMMAND_LENGTH];

/* kv_commands_call of sim/cli/commands.h, or the like. */
typedef int command(int argc, char **argv);

/* Calls f with the words up to a NULL, words[0] being the command's name; or
 * with these and the words of a line formatted as by printf, split at blanks.
 * Returns the exit code. */
int command_call(command *f, const char *const *words);
int command_line(command *f, const char *const *words, const char *format,
                 va_list more);

/* Fails unless `got`, an exit code, is `code` and standard output has the text;
 * or, refused: standard output is empty, and standard error is one line that
 * has it. */
void must(int code, int got, const char *text);
void refused(int code, int got, const char *text);

/* The whole number in the first column of the first row of an SQL query of the
 * database at path. */
int64_t number_in(const char *path, const char *sql);

#endif
