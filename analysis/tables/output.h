/* SPDX-License-Identifier: Apache-2.0
 *
 * Where kvreport writes: standard output, or a file, which is written whole or
 * not at all. Open, write, close. analysis/database/say.h prints errors and has
 * the exit codes.
 */
#ifndef KV_ANALYSIS_OUTPUT_H
#define KV_ANALYSIS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Does path, as typed, mean standard output (NULL, or "-")? */
bool kv_output_is_stdout(const char *path);
/* Opens path for writing, or standard output; NULL after printing an error. A
 * file has a temporary name until it is closed. A device, a pipe, and a link to
 * a missing file are written directly. */
FILE *kv_output_open(const char *path);
/* Closes what kv_output_open opened with the same path; standard output is
 * flushed and stays open. The file gets its name and replaces an old one,
 * unless something has failed since the program began (kv_said): then it is
 * removed. Returns an exit code: kv_said(), or KV_EXIT_RESOURCE, after printing
 * so, if it could not be written completely. */
int kv_output_close(FILE *f, const char *path);

#endif
