/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands in other programs. Like git, `kvreplay NAME` runs the executable
 * file kvreplay-NAME when NAME is not one of its own commands. It looks in its
 * own folder, then in the folders of PATH, and takes the first. The Python
 * package brings such programs, and users can write others. kvreport and
 * kvtrace do the same under their own names. traces/option/program.h calls
 * this.
 */
#ifndef KV_TRACES_FURTHER_H
#define KV_TRACES_FURTHER_H

#include "ref/ground/err.h"

/* Replaces this process by the executable file `file`, with the arguments
 * argv[1], ..; argv ends with NULL. Its argv[0] is `called`, or its path if
 * that is NULL. Returns only if that fails: KV_OK if there is no such file or
 * its name contains a /; KV_RESOURCE with a sentence if it cannot be started.
 * argv is then unchanged. */
kv_rc kv_further_run(const char *file, char *called, char **argv, kv_err *e);

#endif
