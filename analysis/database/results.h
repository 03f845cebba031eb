/* SPDX-License-Identifier: Apache-2.0
 *
 * A database of results as a file: opened to read, checked, merged. An exit
 * code (say.h) is KV_EXIT_OK, or what is wrong was said on standard error in
 * one sentence: KV_EXIT_INPUT for a bad file, KV_EXIT_RESOURCE for want of
 * disk, memory or a lock.
 */
#ifndef KV_ANALYSIS_RESULTS_H
#define KV_ANALYSIS_RESULTS_H

#include "traces/option/option.h"

#include <sqlite3.h>

/* Items below which nothing shows an interval or a standard error: of fewer it
 * is not known how they are spread. */
enum { KV_INTERVAL_LEAST = 5 };

/* Opens a kvreplay database to read, checks it, and makes the functions and
 * views of sql/ in it, which last as long as the connection. An exit code;
 * close *db with sqlite3_close, also after a failure (NULL is accepted). */
int kv_results_open(const char *path, sqlite3 **db);
/* The same, and the views that most others read (open.c lists them) are
 * answered meanwhile and their rows kept in their place, for who asks dozens of
 * questions: 2,000 cells take a second each time. */
int kv_results_open_kept(const char *path, sqlite3 **db);
/* A connection to path of which nothing is read yet, guarded. An exit code;
 * close *db, which is NULL after a failure. */
int kv_results_connect(const char *path, sqlite3 **db);
/* Keeps so the views that read the table `line` (means.sql), once it is full.
 */
int kv_results_keep_lines(sqlite3 *db, const char *path);
/* Fills the temporary tables that the views of evaluations read (answers.sql),
 * which are empty before. Call it once, after opening, where these are asked.
 * Cost: one pass over all numbers of evaluations, seconds for a million. An
 * exit code. */
int kv_results_answers(sqlite3 *db, const char *path);
/* Makes the URI that SQLite is to be given to open or attach path; freed with
 * sqlite3_free. An exit code: where it cannot be read where it lies, *uri is
 * NULL. */
int kv_results_name(const char *path, char **uri);
/* Call it on a new connection, before anything is read: triggers and views that
 * a database brings do not run. 0, or SQLite's code. */
int kv_results_guard(sqlite3 *db);
/* Adds the SQL functions that the views call and SQLite has not (functions.c).
 * 0, or SQLite's code. */
int kv_results_functions(sqlite3 *db);
/* Where another process has locked the database, queries wait for a minute,
 * which is said after half a second, with path, and then fail. path outlives
 * db. */
void kv_results_wait(sqlite3 *db, const char *path);
/* An exit code: KV_EXIT_INPUT if path is no regular file that can be read. */
int kv_results_there(const char *path);
/* Says that the last call of SQLite on db (NULL: opening it) failed, and
 * returns the exit code: KV_EXIT_INPUT where path is no database, is damaged or
 * lacks tables, else KV_EXIT_RESOURCE. */
int kv_results_fail(sqlite3 *db, const char *path);
/* check.c. An exit code: has `schema`, "main" or the name of an attached
 * database, the tables that this program reads? path is for the sentence. */
int kv_results_schema(sqlite3 *db, const char *schema, const char *path);
/* Then: are its tables as kvreplay writes them? */
int kv_results_check(sqlite3 *db, const char *schema, const char *path);
/* The same of main, while db answers sql, whose rows nobody is shown before: of
 * temporary tables, one transaction or nothing. */
int kv_results_check_while(sqlite3 *db, const char *path, const char *sql);

/* kvreport merge OUT DB...: files[0] becomes the union of itself, where it
 * exists, and the others, whole or not at all. An exit code: KV_EXIT_DIFFERENT
 * where they contradict each other, KV_EXIT_USAGE where OUT is named twice. */
int kv_results_merge(const kv_list *files);

#endif
