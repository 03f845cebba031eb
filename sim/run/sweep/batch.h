/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch: all cells of one trace, or those of a shard, in the order of the
 * command line (methods, then budgets). All are opened, which includes searches
 * for budgets in bytes, before any is replayed:
 *   kv_batch_open; with a database kv_batch_recall; kv_replay of b.each;
 *   kv_batch_close
 * If the trace cannot be opened, kv_batch_lost makes rows that say so.
 */
#ifndef KV_SIM_BATCH_H
#define KV_SIM_BATCH_H

#include "sim/replay/engine/replay.h"
#include "sim/run/sweep/found.h"
#include "sim/store/db.h"

/* A probe of a search (search.c): the knob's value and the bytes in a basis. */
typedef struct kv_batch_probe {
  const kv_spec *spec;
  kv_basis basis;
  kv_db_probe said;
} kv_batch_probe;

typedef struct kv_batch {
  kv_trace *trace;    /* NULL if it could not be opened (kv_batch_lost) */
  bool owns;          /* close the trace with the batch */
  bool has_identity;  /* it was computed, for a database or on request */
  kv_digest identity; /* of the trace */
  kv_digest request;  /* of the trace, if there is a database */
  int prompt_len;     /* of all cells, in tokens */
  kv_err blind;       /* rc KV_REFUSED: why the trace lacks what ask.observe
                         names; no cell then runs */
  bool tokens;        /* set by the caller before recall: the fate of tokens is
                         requested, so a row without it runs */
  int cells;
  kv_cell *cell;  /* [cells]; they do not move */
  kv_cell **each; /* [cells] pointers to them, for kv_replay */
  kv_found found; /* earlier searches, from the file next to the trace */
  int n_probes;
  kv_batch_probe *probe; /* [n_probes] of all searches: budgets of one method
                            share some places */
} kv_batch;

/* What to open a batch for; all of it is borrowed until the batch is closed. */
typedef struct kv_batch_ask {
  const char *path;          /* of the trace */
  const kv_specs *specs;     /* -m */
  const kv_budgets *budgets; /* -b; n 0: none were given */
  int prompt_len;            /* tokens; 0: as observe says */
  kv_observe observe;        /* where the prompt ends (sim/ask/observe.h) */
  kv_replay_how how; /* how to replay; searches for byte budgets replay, too */
  kv_db *db;         /* or NULL; its rows and searches are reused */
  double keep_every; /* seconds; probes that take longer are kept in db */
  const kv_layout_list *layouts; /* of all cells, or NULL; borrowed */
  const int *shard; /* the shard of each cell, in the order of the batch; only
                       cells of `mine` are opened. NULL: all */
  int mine;         /* a shard's number, from 1 */
  bool identify;    /* compute the trace's identity even without db */
  kv_found *record; /* or NULL; gets the results of all searches, each made by
                       replays, even if a result is known */
  /* Or NULL; called before the n-th probe (from 1) of at most `most` of a
   * search. A probe is a replay of `units` units of how.tick, unless db has it.
   * self is how.self. */
  void (*probing)(void *self, const char *method, int n, int most,
                  int64_t units);
} kv_batch_ask;

/* Must that cell of the specifications and budgets be opened? */
static inline bool kv_batch_mine(const kv_batch_ask *ask, int cell) {
  return !ask->shard || ask->shard[cell] == ask->mine;
}

/* Does the j-th budget (j = 0 if there are none) make a cell of its own for the
 * specification? *b: that budget, or NULL if it does not set the knob; of
 * several such budgets only the first makes a cell. */
bool kv_batch_asks(const kv_spec *spec, const kv_budgets *all, int j,
                   const kv_budget **b);
/* Opens the trace and its cells, which searches for budgets in bytes. Fails if
 * the trace (KV_INPUT), a specification (KV_USAGE), or a search's replay fails.
 * Close *out also then. */
kv_rc kv_batch_open(const kv_batch_ask *ask, kv_batch *out, kv_err *e);
/* For kv_batch_open and shares. *prompt_len: where the replays of trace t start
 * to decode, in tokens. KV_USAGE if the requested prompt_len does not fit the
 * trace. KV_REFUSED: the trace lacks what ask->observe names, and *prompt_len
 * is the trace's own. */
kv_rc kv_batch_prompt(const kv_batch_ask *ask, const kv_trace *t,
                      int *prompt_len, kv_err *e);
/* Opens the same cells again for another kernel set, with the resolved budgets;
 * `from` still owns the trace. Of the cells whose rows ran, those run that this
 * kernel set has not confirmed in db; without db (NULL), those that `from`
 * replayed. KV_INTERNAL: a cell that ran is now refused. */
kv_rc kv_batch_again(const kv_batch *from, const kv_kernels *kernels, kv_db *db,
                     kv_batch *out, kv_err *e);
void kv_batch_close(kv_batch *b); /* accepts zeroed */

/* kv_batch_lost makes the cells of a trace that cannot be opened, all failed
 * with the reason `why`. kv_batch_fail fails those cells of a batch that were
 * to run, if its trace turns out to be bad. Such rows are not results and are
 * not stored in a database. */
kv_rc kv_batch_lost(const kv_batch_ask *ask, const kv_err *why, kv_batch *out,
                    kv_err *e);
void kv_batch_fail(kv_batch *b, const kv_err *why);

/* Fills in the rows of cells that the database already has from the batch's
 * backend; they do not run again. Rows that only other backends computed run,
 * to confirm them; so do rows that lack a requested layout or the fate of
 * tokens. Fails as the database does. */
kv_rc kv_batch_recall(kv_batch *b, kv_db *db, kv_err *e);

/* sim/run/sweep/search.c: *value is the knob's value (kv_asked_cell.entries)
 * that a budget in bytes means for a method on the batch's trace, found by
 * replays or in the database. KV_REFUSED: no value fits, or the method accepts
 * none that does. */
kv_rc kv_batch_search(const kv_batch_ask *ask, kv_batch *b, const kv_spec *spec,
                      const kv_budget *budget, int *value, kv_err *e);
/* Does a search for bytes of that basis replay the opened cell's plan without
 * queries (kv_backend_blind)? It does if only lengths decide what is stored. */
bool kv_batch_blind(const kv_plan *plan, kv_basis basis);

#endif
