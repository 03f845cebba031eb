/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are programs of their own: `kvreplay NAME`, where NAME is no
 * command of kvreplay, runs the first executable file kvreplay-NAME of its own
 * folder and those of PATH, as git does. The Python package brings some,
 * anybody may write others; kvreport and kvtrace do the same by their own
 * names. traces/option/program.h asks here when its table has no such command,
 * --help for the list.
 */
#ifndef KV_TRACES_FURTHER_H
#define KV_TRACES_FURTHER_H

#include "ref/ground/err.h"

/* KV_FURTHER_MOST: how many are listed; KV_FURTHER_ROOM: bytes of a name, its
 * end included. Longer names are run, but not listed. */
enum { KV_FURTHER_MOST = 64, KV_FURTHER_ROOM = 64 };

/* Becomes the program PROGRAM-NAME, NAME being argv[0], with the arguments
 * argv[1], ..; argv ends with NULL. Returns KV_OK where there is no such
 * program or NAME holds a /, and KV_RESOURCE with a sentence where the system
 * does not start the one that is there; argv is then as it was. Else it does
 * not return. */
kv_rc kv_further_run(const char *program, char **argv, kv_err *e);

/* Writes the NAMEs that are there now, in ascending order of their bytes, each
 * once; of more than KV_FURTHER_MOST those found first. Returns how many. */
int kv_further_list(const char *program,
                    char names[KV_FURTHER_MOST][KV_FURTHER_ROOM]);

#endif
