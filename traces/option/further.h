/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are programs of their own. `kvreplay NAME`, if kvreplay has no
 * command NAME, runs the first executable file kvreplay-NAME in its own folder
 * and those of PATH, as git does. The Python package has some; anybody may
 * write others. kvreport and kvtrace do the same by their own names.
 * traces/option/program.h calls this if its table has no such command; --help
 * calls it for the list.
 */
#ifndef KV_TRACES_FURTHER_H
#define KV_TRACES_FURTHER_H

#include "ref/ground/err.h"

/* KV_FURTHER_MOST: how many are listed; KV_FURTHER_ROOM: bytes of a name, NUL
 * included. Longer names run, but are not listed. */
enum { KV_FURTHER_MOST = 64, KV_FURTHER_ROOM = 64 };

/* Replaces the process by the program PROGRAM-NAME, where NAME is argv[0], with
 * the arguments argv[1], ..; argv ends with NULL. Returns only if it does not:
 * KV_OK if there is no such program or NAME contains a /, KV_RESOURCE if the
 * system cannot start it; argv is then unchanged. */
kv_rc kv_further_run(const char *program, char **argv, kv_err *e);

/* Writes the NAMEs that exist now, in bytewise ascending order, each once; if
 * there are more than KV_FURTHER_MOST, those found first. Returns how many. */
int kv_further_list(const char *program,
                    char names[KV_FURTHER_MOST][KV_FURTHER_ROOM]);

#endif
