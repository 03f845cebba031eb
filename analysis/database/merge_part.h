/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of kvreport merge share. For nobody else.
 */
#ifndef KV_ANALYSIS_MERGE_PART_H
#define KV_ANALYSIS_MERGE_PART_H

#include <sqlite3.h>

/* Says where database `from`, which is attached and came from path, contradicts
 * main, and returns KV_EXIT_DIFFERENT; else KV_EXIT_OK. */
int kv_merge_contradictions(sqlite3 *db, const char *from, const char *path);

#endif
