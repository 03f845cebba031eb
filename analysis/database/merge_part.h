/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to merge.c and differ.c: what `kvreport merge` asks before it
 * joins a database to another.
 */
#ifndef KV_ANALYSIS_MERGE_PART_H
#define KV_ANALYSIS_MERGE_PART_H

#include <sqlite3.h>

/* Compares database `from`, the name under which it is attached, with main. If
 * rows of one key have other digests or numbers, says so on standard error,
 * with path, the file's name, and returns KV_EXIT_DIFFERENT; KV_EXIT_OK if
 * nothing contradicts, KV_EXIT_RESOURCE if SQLite fails. Changes nothing. */
int kv_merge_contradictions(sqlite3 *db, const char *from, const char *path);

#endif
