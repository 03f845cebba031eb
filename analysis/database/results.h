/* SPDX-License-Identifier: Apache-2.0
 *
 * A database of results as a file: opened for reading, checked, merged.
 * Functions that return an exit code (say.h) have printed one sentence unless
 * it is KV_EXIT_OK: KV_EXIT_INPUT for a bad file, KV_EXIT_RESOURCE for lack of
 * disk, memory or a lock.
 */
#ifndef KV_ANALYSIS_RESULTS_H
#define KV_ANALYSIS_RESULTS_H

#include "traces/option/option.h"

#include <sqlite3.h>

/* With fewer items no interval or standard error is shown. */
enum { KV_INTERVAL_LEAST = 5 };

/* Opens a kvreplay database for reading, checks it, and creates the functions
 * and views of sql/ in it, for the lifetime of the connection. Returns an exit
 * code. Close *db with sqlite3_close, also after a failure. */
int kv_results_open(const char *path, sqlite3 **db);
/* The same, and replaces the views that most others read (open.c lists them) by
 * tables of their rows. For callers with dozens of queries: 2,000 cells take a
 * second each time. */
int kv_results_open_kept(const char *path, sqlite3 **db);
/* A guarded connection to path from which nothing has been read yet. Returns an
 * exit code. Close *db, which is NULL after a failure. */
int kv_results_connect(const char *path, sqlite3 **db);
/* The same for views that read the table `line` (means.sql), once it is
 * filled. */
int kv_results_keep_lines(sqlite3 *db, const char *path);
/* Fills the temporary tables that the views of evaluations read (answers.sql)
 * and that are empty before. Call it once after opening, before querying the
 * views. Cost: one pass over all numbers of evaluations, seconds for a million.
 * Returns an exit code. */
int kv_results_answers(sqlite3 *db, const char *path);
/* Makes the URI with which SQLite opens or attaches path; free it with
 * sqlite3_free. Returns an exit code; *uri is NULL if the file cannot be read
 * in place. */
int kv_results_name(const char *path, char **uri);
/* Call it on a new connection before anything is read: then triggers and views
 * of the database do not run. Returns 0, or SQLite's code. */
int kv_results_guard(sqlite3 *db);
/* Adds the SQL functions that the views call and SQLite lacks (functions.c).
 * Returns 0, or SQLite's code. */
int kv_results_functions(sqlite3 *db);
/* If another process has locked the database, queries wait for a minute, then
 * fail; after half a second it prints a message with path. path outlives db. */
void kv_results_wait(sqlite3 *db, const char *path);
/* An exit code: KV_EXIT_INPUT if path is no regular file that can be read. */
int kv_results_there(const char *path);
/* Prints that the last SQLite call on db (NULL: opening it) failed, and returns
 * the exit code: KV_EXIT_INPUT if path is no database, is damaged or lacks
 * tables, else KV_EXIT_RESOURCE. */
int kv_results_fail(sqlite3 *db, const char *path);
/* check.c. Does `schema`, "main" or the name of an attached database, have the
 * tables that this program reads? Returns an exit code. */
int kv_results_schema(sqlite3 *db, const char *schema, const char *path);
/* Are the values in its tables as kvreplay writes them? */
int kv_results_check(sqlite3 *db, const char *schema, const char *path);
/* The same for main, while db runs sql, whose rows must not be shown before.
 * sql makes temporary tables, in one transaction or not at all. */
int kv_results_check_while(sqlite3 *db, const char *path, const char *sql);

/* kvreport merge OUT DB...: files[0] becomes the union of itself, if it exists,
 * and the others, whole or not at all. Returns an exit code: KV_EXIT_DIFFERENT
 * if they contradict each other, KV_EXIT_USAGE if OUT is named twice. */
int kv_results_merge(const kv_list *files);

#endif
