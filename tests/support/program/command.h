/* SPDX-License-Identifier: Apache-2.0
 *
 * A command called in this process, with what it prints kept. It may be
 * linked with backends of the test's own. Anything that goes wrong here fails
 * the running cmocka test.
 */
#ifndef KV_TESTS_COMMAND_H
#define KV_TESTS_COMMAND_H

#include <stdarg.h>
#include <stdint.h>

/* Standard output and standard error of the last call. */
enum { COMMAND_LENGTH = 1 << 21 };
extern char heard[COMMAND_LENGTH], said[COMMAND_LENGTH];

typedef int command(int argc, char **argv); /* of sim/commands/commands.h */

/* Calls it with the words up to a NULL, or with those and more up to another:
 * the exit code. */
int command_call(command *f, const char *const *words);
int command_with(command *f, const char *const *words, va_list more);

/* Fails unless the code is as asked and the text stands on standard output;
 * or nothing there, and one line with the text on standard error. */
void must(int code, int got, const char *text);
void refused(int code, int got, const char *text);

/* What an SQL query of a database gives. */
int64_t number_in(const char *path, const char *sql);

#endif
