/* SPDX-License-Identifier: Apache-2.0
 *
 * A database of results as a file: opened to read, checked, merged. Each says
 * itself what is wrong (say.h) and returns an exit code.
 */
#ifndef KV_ANALYSIS_RESULTS_H
#define KV_ANALYSIS_RESULTS_H

#include "traces/option/option.h"

#include <sqlite3.h>

/* Opens a kvreplay database to read and makes the views of sql/. */
int kv_results_open(const char *path, sqlite3 **db);
/* What SQLite is to be given to open or attach path: to be freed with
 * sqlite3_free; NULL, and an exit code, where it cannot be read where it lies.
 */
int kv_results_name(const char *path, char **uri);
/* Before anything is read: a database brings no code of its own (triggers,
 * views) that would run. 0, or what SQLite says. */
int kv_results_guard(sqlite3 *db);
/* What the views ask for and SQLite has not (functions.c). 0, or what it says.
 */
int kv_results_functions(sqlite3 *db);
/* A minute where another process writes, aloud; path outlives db. */
void kv_results_wait(sqlite3 *db, const char *path);
/* Says so if path is no file that can be read. */
int kv_results_there(const char *path);
/* Says that SQLite failed, and which code that is: a bad file or none. */
int kv_results_fail(sqlite3 *db, const char *path);
/* Is schema (main or attached) of this version, and all in it as kvreplay
 * writes it (check.c)? Says so if not. */
int kv_results_check(sqlite3 *db, const char *schema, const char *path);

/* kvreport merge OUT DB...: files[0] becomes the union of itself, where it is
 * there, and the others. */
int kv_results_merge(const kv_list *files);

#endif
