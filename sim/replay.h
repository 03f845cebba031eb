/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay: one pass over a trace for many cells. The exact attention, the
 * prompt's evidence and every conversion are computed once and shared.
 *
 * Two walks give the same digests: layer by layer (one layer of the trace
 * resident per worker, layers in parallel, or the KV heads of a layer where
 * there are more threads than layers), and step by step (all layers in
 * flight). Memory: per layer in flight and cell about 28 bytes a token and
 * lane and what its verbs rewrite; per thread about 100 bytes a token and
 * query head of a group.
 */
#ifndef KV_SIM_REPLAY_H
#define KV_SIM_REPLAY_H

#include "sim/cell.h"
#include "sim/layer.h"

typedef struct kv_replay_how {
  const kv_backend *backend;
  const kv_kernels *kernels;
  int threads;           /* >= 1; of the reference, others have one */
  bool by_steps;         /* the other walk */
  bool fidelity;         /* not only digests and cost */
  const kv_watch *watch; /* or NULL; threads is 1 unless all stand by */
  /* or NULL: units done since the last call, from any thread */
  void (*tick)(void *self, int64_t units);
  void *self;         /* of tick */
  bool (*stop)(void); /* or NULL; polled every step */
} kv_replay_how;

/* Units of progress of one pass over the trace: tokens times layers. */
#define KV_REPLAY_UNIT "layer tokens"
int64_t kv_replay_units(const kv_trace *t, int prompt_len);

/* Replays the cells that run (cell[i]->runs), all of one trace and one
 * prompt_len, and finishes their rows. *stopped: `stop` said so and no row
 * was finished. KV_INPUT: the trace is bad; KV_RESOURCE: no memory, or the
 * backend lost its device; no row was finished. */
kv_rc kv_replay(const kv_trace *t, kv_cell *const *cell, int cells,
                const kv_replay_how *how, bool *stopped, kv_err *e);

#endif
