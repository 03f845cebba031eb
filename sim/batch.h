/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch: all cells of one trace, in the order of the command line
 * (methods, then budgets). Opened as a whole before anything is replayed.
 */
#ifndef KV_SIM_BATCH_H
#define KV_SIM_BATCH_H

#include "sim/db.h"
#include "sim/replay.h"

typedef struct kv_batch {
  kv_trace *trace;
  bool owns; /* the trace */
  bool has_identity;
  kv_digest identity;
  int cells;
  kv_cell *cell;  /* [cells]; they do not move */
  kv_cell **each; /* [cells] pointers to them */
} kv_batch;

typedef struct kv_batch_ask {
  const char *path;
  const kv_specs *specs;
  const kv_budgets *budgets;
  int prompt_len;    /* 0: the trace's own */
  kv_replay_how how; /* who will replay; the search of byte budgets does */
  kv_db *db;         /* or NULL; rows and searches that it knows */
  /* or NULL: a search replays its n-th (from 1) of at most `most` probes, all
   * of `units` ticks; self is of `how` */
  void (*probing)(void *self, const char *method, int n, int most,
                  int64_t units);
} kv_batch_ask;

/* Opens the trace and its cells. Errors are those of the trace, of a
 * specification, or of a search that had to replay. */
kv_rc kv_batch_open(const kv_batch_ask *ask, kv_batch *out, kv_err *e);
/* The same cells again, for another set of kernels: budgets as resolved. With
 * a database those run that this set has not confirmed, else those that ran. */
kv_rc kv_batch_again(const kv_batch *from, const kv_kernels *kernels, kv_db *db,
                     kv_batch *out, kv_err *e);
void kv_batch_close(kv_batch *b); /* accepts zeroed */

/* Fills what the database has by the batch's backend; those cells do not run
 * again. What only others have computed is run, and confirmed or not. */
kv_rc kv_batch_recall(kv_batch *b, kv_db *db, kv_err *e);

/* sim/search.c: the entries that a budget in bytes means for a method. */
kv_rc kv_batch_search(const kv_batch_ask *ask, const kv_batch *b,
                      const kv_spec *spec, const kv_budget *budget,
                      int *entries, kv_err *e);

#endif
