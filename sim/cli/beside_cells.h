/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run --tp` and `--chunk`: beside each cell the same one on ranks
 * that have some of the KV heads and decide alone (sim/cli/sheet/beside.h), or
 * with its prompt in pieces (sim/cli/sheet/beside.h); `--cache`: with caches on
 * the device (sim/run/look/device_caches.h). For each trace: check once its
 * cells are open; open; replay with `watch`; ask; close. In the end print.
 */
#ifndef KV_SIM_BESIDE_CELLS_H
#define KV_SIM_BESIDE_CELLS_H

#include "sim/cli/job.h"
#include "sim/cli/sheet/decided.h"
#include "sim/run/look/device_caches.h"

/* What was asked for; 0: not that. */
typedef struct kv_beside_asked {
  int ranks;            /* --tp */
  int chunk;            /* --chunk, tokens of a piece */
  kv_cache_list caches; /* --cache */
} kv_beside_asked;

/* True if anything was. */
static inline bool kv_beside_asks(const kv_beside_asked *a) {
  return a->ranks || a->chunk || a->caches.n;
}

typedef struct kv_beside_cells {
  const kv_batch *batch;
  kv_beside_asked asked;
  const kv_watch *watch; /* for the replay: those of the cells, then the one
                            that open was given */
  kv_decided **decided;  /* [cells], NULL where a cell does not run; of ranks
                            and chunk */
  kv_device_caches *caches;
} kv_beside_cells;

/* KV_USAGE: KV heads of a trace cannot be dealt to so many ranks. */
kv_rc kv_beside_cells_check(const kv_job *s, const kv_beside_asked *asked,
                            kv_err *e);
/* Nothing asked for: neither this nor ask does anything. KV_RESOURCE: memory.
 * Close it, also after a failure. */
kv_rc kv_beside_cells_open(const kv_batch *b, const kv_beside_asked *asked,
                           const kv_watch *next, kv_beside_cells *out,
                           kv_err *e);
/* After the replay: replays what was asked for and fills `ranks`, `chunks` and
 * `device_cache` of each row of the batch. Codes and *stopped as of
 * kv_ranks_ask. */
kv_rc kv_beside_cells_ask(const kv_beside_cells *x, const kv_replay_how *how,
                          bool *stopped, kv_err *e);
/* Before a row is shown: r gets the keys of what was asked for and is not
 * there, without numbers, so that all rows have the same keys. KV_RESOURCE:
 * memory. */
kv_rc kv_beside_cells_name(const kv_beside_asked *asked, kv_result *r,
                           kv_err *e);
void kv_beside_cells_close(kv_beside_cells *x); /* accepts zeroed */
/* Prints for people, below the table of rows, what was asked for. KV_RESOURCE:
 * memory. Whether out was written is for the caller to see (ferror). */
kv_rc kv_beside_cells_print(const kv_job *s, const kv_beside_asked *asked,
                            FILE *out, kv_err *e);

#endif
