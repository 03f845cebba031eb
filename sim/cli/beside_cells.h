/* SPDX-License-Identifier: Apache-2.0
 *
 * Further replays for `kvreplay run`. --tp replays the same cell on ranks that
 * have some of the KV heads and decide alone; --chunk with its prompt in pieces
 * (both sim/cli/sheet/beside.h); --cache with caches on the device
 * (sim/run/look/device_caches.h). For each trace: check once its cells are
 * open; open; replay with `watch`; ask; close. At the end print.
 */
#ifndef KV_SIM_BESIDE_CELLS_H
#define KV_SIM_BESIDE_CELLS_H

#include "sim/cli/job.h"
#include "sim/cli/sheet/decided.h"
#include "sim/run/look/device_caches.h"

/* The options; 0: not given. */
typedef struct kv_beside_asked {
  int ranks;            /* --tp */
  int chunk;            /* --chunk, tokens of a piece */
  kv_cache_list caches; /* --cache */
} kv_beside_asked;

static inline bool kv_beside_asks(const kv_beside_asked *a) {
  return a->ranks || a->chunk || a->caches.n;
}

typedef struct kv_beside_cells {
  const kv_batch *batch;
  kv_beside_asked asked;
  const kv_watch *watch; /* for the replay: the cells' watches, then the one
                            passed to open */
  kv_decided **decided;  /* [cells], NULL if a cell does not run; for --tp and
                            --chunk */
  kv_device_caches *caches;
} kv_beside_cells;

/* KV_USAGE: the KV heads of a trace cannot be divided among so many ranks. */
kv_rc kv_beside_cells_check(const kv_job *s, const kv_beside_asked *asked,
                            kv_err *e);
/* Opens the watches. Without options, neither this nor ask does anything.
 * KV_RESOURCE: memory. Close it, also after a failure. */
kv_rc kv_beside_cells_open(const kv_batch *b, const kv_beside_asked *asked,
                           const kv_watch *next, kv_beside_cells *out,
                           kv_err *e);
/* After the replay: does the further replays and fills in `ranks`, `chunks` and
 * `device_cache` of each row of the batch. Codes and *stopped as in
 * kv_ranks_ask. */
kv_rc kv_beside_cells_ask(const kv_beside_cells *x, const kv_replay_how *how,
                          bool *stopped, kv_err *e);
/* Before a row is shown: adds to r the keys of these options that it lacks,
 * without numbers, so that all rows have the same keys. KV_RESOURCE: memory. */
kv_rc kv_beside_cells_name(const kv_beside_asked *asked, kv_result *r,
                           kv_err *e);
void kv_beside_cells_close(kv_beside_cells *x); /* accepts zeroed */
/* Prints the results for people, below the table of rows. KV_RESOURCE: memory.
 * The caller checks ferror(out). */
kv_rc kv_beside_cells_print(const kv_job *s, const kv_beside_asked *asked,
                            FILE *out, kv_err *e);

#endif
