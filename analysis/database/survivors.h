/* SPDX-License-Identifier: Apache-2.0
 *
 * SQL functions over what `kvreplay run --tokens` stores of a cell (the table
 * `survival`): when each token leaves each lane, and how often it is seen. The
 * views `tokens` and `overlap` of pictures.sql call them. gone, shown: blobs of
 * little-endian 32-bit integers, one per token: the step at which it leaves, 0
 * if never; and the number of decode steps at which a query head sees it. Steps
 * are tokens seen.
 *
 *   stored(gone, from, to, step): of the tokens from .. to - 1 that had entered
 *     when `step` tokens were seen, the share still stored after it; null if
 *     none had entered
 *   shown_share(shown, from, to, prompt): of the decode steps since a token
 *     entered, the share at which a query head saw it, mean over the tokens
 *     from .. to - 1; null if none had such a step
 *   overlap_of(gone, other, step): tokens stored by both after that step, over
 *     tokens stored by either (Jaccard); null without any
 */
#ifndef KV_ANALYSIS_SURVIVORS_H
#define KV_ANALYSIS_SURVIVORS_H

#include <sqlite3.h>

/* Adds the functions to a connection, before the views. Returns SQLite's
 * code. */
int kv_survivors_functions(sqlite3 *db);

#endif
