/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay: one pass over a trace for many cells. Exact attention, the
 * prompt's observation and every type conversion are computed once and shared
 * by all cells.
 *
 * Two walks give the same digests. Layer by layer: each worker has one layer of
 * the trace in memory; layers run in parallel, or the KV heads of one layer if
 * there are more threads than layers. Step by step: all layers are in flight.
 * What a layer gave to a cell can be kept and need not be replayed again; any
 * subset of layers gives the same row. Cells whose layers publish messages are
 * replayed whole, one layer at a time.
 *
 * Memory: for each layer in flight and cell about 28 bytes a token and lane,
 * plus the rows that its memory operations rewrite; for each thread about 100
 * bytes a token and query head of a group; for each layer in flight a tile of
 * at most 32 MiB or one step (sim/replay/measure/tile.h), and as much again for
 * the logits of lanes that keep their own ahead (ref/backend/ahead.h).
 */
#ifndef KV_SIM_REPLAY_H
#define KV_SIM_REPLAY_H

#include "sim/replay/engine/cell.h"
#include "sim/replay/engine/layer.h"

/* Stores what one layer gave to one cell, so that an interrupted replay can be
 * continued (sim/run/sweep/keeper.h). Only the walk layer by layer uses it; a
 * walk step by step ends all layers at once and has nothing to keep. One thread
 * calls begin and end; any thread calls ended and slow, several at once. */
typedef struct kv_replay_keeper {
  void *self; /* first argument of each */
  /* Seconds of work that may be lost. If one layer of all cells takes longer,
   * it is replayed in groups of cells (sim/replay/engine/groups.h). */
  double most;
  /* Called with the n prepared cells. Reads the stored parts into them
   * (sim/replay/engine/cell.h) and sets there[i * layers + layer] for each;
   * those layers are not replayed. */
  kv_rc (*begin)(void *self, int n, kv_cell *const *cell, bool *there,
                 kv_err *e);
  /* Cells at[n], numbered as in begin, have finished the layer (index), which
   * took `seconds`. */
  void (*ended)(void *self, int n, const int *at, int layer, double seconds);
  /* A group of n cells, `first` among them, took `seconds` > 4/3 of `most`. */
  void (*slow)(void *self, const kv_cell *first, int n, double seconds);
  /* The walk is over. Not called without a walk: no layer had to be replayed,
   * or memory ran out before. cut: it was interrupted, or the trace is bad, and
   * no rows will be finished. */
  void (*end)(void *self, bool cut);
} kv_replay_keeper;

typedef struct kv_replay_how {
  const kv_backend *backend;
  const kv_kernels *kernels; /* for exact rows, measures and the reference */
  int threads;               /* >= 1; a walk uses one unless kv_replay_parallel;
                                all threads finish rows */
  bool by_steps;             /* walk step by step */
  bool fidelity;             /* measure fidelity, not only digests and cost */
  int tile;           /* rows computed at once (sim/replay/measure/tile.h,
                         ref/backend/ahead.h); 0: as many as is fastest */
  bool scores;        /* also take digests of the scores that selections rank */
  bool paged;         /* kv_plan.paged for all cells */
  kv_indices indices; /* kv_plan.indices for all cells */
  const kv_watch *watch;        /* or NULL */
  const kv_replay_keeper *keep; /* or NULL */
  /* Reports units done since the last call, from any thread; or NULL. */
  void (*tick)(void *self, int64_t units);
  void *self; /* of tick */
  /* Or NULL; polled at every step, and between parts of a prompt. Once true it
   * must stay true. */
  bool (*stop)(void);
} kv_replay_how;

/* Does the replay use more than one thread? If so, several threads may call the
 * backend, and every watch is concurrent. */
bool kv_replay_parallel(const kv_replay_how *how);

/* Units of progress of one pass over the trace, as how.tick counts them: tokens
 * times recorded layers. */
#define KV_REPLAY_UNIT "layer tokens"
int64_t kv_replay_units(const kv_trace *t, int prompt_len);

/* Replays the cells with cell[i]->runs set, all with the same trace and
 * prompt_len, and fills in their rows. *stopped: `stop` returned true and no
 * row was filled in. KV_INPUT: the trace is bad. KV_RESOURCE: memory ran out or
 * the device was lost; some rows may not be filled in. */
kv_rc kv_replay(const kv_trace *t, kv_cell *const *cell, int cells,
                const kv_replay_how *how, bool *stopped, kv_err *e);

#endif
