/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to merge.c and differ.c: what `kvreport merge` asks before it joins
 * one database of results to another.
 */
#ifndef KV_ANALYSIS_MERGE_PART_H
#define KV_ANALYSIS_MERGE_PART_H

#include <sqlite3.h>

/* Compares two databases of one connection: "main", and the one attached as
 * "source", whose file is `path`. Both hold the tables that
 * kv_results_check asks for. KV_EXIT_DIFFERENT where both hold something of one
 * key (a run, a budget, a layout, ...) with other digests or numbers:
 * the first such thing is told on standard error, with path. KV_EXIT_OK:
 * nothing contradicts; what only one of them has does not. Where SQLite fails,
 * the code of kv_results_fail. Changes nothing. */
int kv_merge_contradictions(sqlite3 *db, const char *path);

#endif
