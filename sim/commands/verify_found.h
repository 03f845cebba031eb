/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay verify FILE` of a table of found budgets (sim/sweep/found.h): every
 * search is made again, and must find what the table says. A row of an older
 * revision of its method is one that nobody asks for; it is counted and left.
 */
#ifndef KV_SIM_VERIFY_FOUND_H
#define KV_SIM_VERIFY_FOUND_H

#include "sim/engine/replay.h"
#include "sim/sweep/found.h"
#include "traces/option/option.h"

typedef struct kv_verify_found {   /* rows */
  int same, differed, older, lost; /* lost: without their trace */
} kv_verify_found;

/* Reads the table and searches, trace by trace; says each row that differs, and
 * each trace that is not there, on standard error. Traces lie where the table
 * says, seen from its folder, or in one of `folders`. KV_INPUT: the table or a
 * trace is bad; KV_RESOURCE. */
kv_rc kv_verify_found_all(const char *table, const kv_list *folders,
                          const kv_replay_how *how, kv_verify_found *out,
                          kv_err *e);
/* Prints how many rows are what; returns the exit code of the command. */
int kv_verify_found_conclude(const char *table, const kv_verify_found *n);

#endif
