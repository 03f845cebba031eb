/* SPDX-License-Identifier: Apache-2.0
 *
 * Where kvreport writes: the standard output, or a file that is whole or not
 * there.
 */
#ifndef KV_ANALYSIS_OUTPUT_H
#define KV_ANALYSIS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* No path, or -. */
bool kv_output_is_stdout(const char *path);
/* Opens a->output to write, or stdout; NULL after saying why. A file appears
 * when it is closed, whole or not at all: not if anything went wrong before, as
 * kv_said() tells. kv_output_close tells a full disk (KV_EXIT_RESOURCE), and
 * returns kv_said() otherwise. */
FILE *kv_output_open(const char *path);
int kv_output_close(FILE *f, const char *path);

#endif
