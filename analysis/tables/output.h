/* SPDX-License-Identifier: Apache-2.0
 *
 * Where kvreport writes: the standard output, or a file that is whole or left
 * as it was. Open, write, close. What goes wrong is said, and exit codes are
 * chosen, by analysis/database/say.h.
 */
#ifndef KV_ANALYSIS_OUTPUT_H
#define KV_ANALYSIS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* True if path, as typed, means the standard output: NULL, or "-". */
bool kv_output_is_stdout(const char *path);
/* Opens path to write, or the standard output; NULL after saying why it cannot.
 * A file is written beside its place until it is closed; a device, a pipe, and
 * a link to what is not there yet are written to at once. */
FILE *kv_output_open(const char *path);
/* Closes what kv_output_open opened by the same path; the standard output is
 * flushed and stays open. The file gets its name, in place of one that is
 * there, unless something went wrong since the program began, as kv_said()
 * tells: then what was written is removed. Returns an exit code: kv_said(), or
 * KV_EXIT_RESOURCE, after saying so, where not all could be written. */
int kv_output_close(FILE *f, const char *path);

#endif
