/* SPDX-License-Identifier: Apache-2.0
 *
 * SQL functions over what `kvreplay run --tokens` keeps of a cell (the table
 * `survival`): when each token leaves each lane, and how often it is shown. The
 * views `tokens` and `overlap` of pictures.sql call them. gone, shown: blobs of
 * little-endian 32-bit integers, one a token: the step that it leaves at, 0 if
 * it never does; at how many decode steps a query head is shown it. Steps are
 * tokens seen.
 *
 *   stored(gone, from, to, step): of the tokens from .. to - 1 that had entered
 *     when `step` tokens were seen, the share still stored after it; null where
 *     none had entered
 *   shown_share(shown, from, to, prompt): of the decode steps since a token
 *     entered, the share at which it was shown to a query head, mean over the
 *     tokens from .. to - 1; null where none had such a step
 *   overlap_of(gone, other, step): tokens stored by both after that step, over
 *     those stored by either (Jaccard); null without any
 */
#ifndef KV_ANALYSIS_SURVIVORS_H
#define KV_ANALYSIS_SURVIVORS_H

#include <sqlite3.h>

/* Adds the functions to a connection, before the views are made. Returns 0, or
 * SQLite's code. */
int kv_survivors_functions(sqlite3 *db);

#endif
