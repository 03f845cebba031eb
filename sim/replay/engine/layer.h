/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer in flight: the stores of all cells on it, the engine's calls in the
 * order that every walk shares (sim/replay/engine/order.h), and the measuring
 * between them. There is no branch on a method: methods differ by the data in
 * kv_needs.
 *
 * Work on different KV heads is independent; a kv_team says how many threads
 * share it. kv_layer_open, kv_layer_take_tile and kv_worker_open return
 * KV_RESOURCE without memory. After them only stores on a device allocate, when
 * a layer begins and when tokens enter; failing there is a fault of the store
 * (kv_layer_failed). Used by the walks of a replay (sim/replay/engine/replay.c)
 * and by sessions.
 */
#ifndef KV_SIM_LAYER_H
#define KV_SIM_LAYER_H

#include "sim/replay/engine/cell.h"
#include "sim/replay/measure/truth.h"

/* What one thread needs. */
typedef struct kv_worker {
  kv_scratch *scratch; /* the backend's */
  kv_truth *truth;     /* NULL if only the cost is measured */
  uint8_t *mark;       /* kv_cost_mark_size bytes, zeroed */
  double *seconds;     /* [cells] spent on each; callers read and zero them */
  /* [cells] each: scratch for the cells replayed together: their stores, their
   * indexes, and their part in the engine's calls. */
  kv_store **store;
  int *who;
  struct kv_rider *rider;
} kv_worker;

/* Opens a worker, zeroed before, for cells with plan[cells], all of that shape.
 * It does not open w->truth: a caller that measures fidelity does. Close the
 * worker also after a failure. kv_worker_close also closes the truth and
 * accepts a zeroed worker. */
kv_rc kv_worker_open(const kv_backend *backend, const kv_shape *shape,
                     const kv_plan *const *plan, int cells, kv_worker *w,
                     kv_err *e);
void kv_worker_close(const kv_backend *backend, kv_worker *w);

/* Workers for one layer: one for all KV heads, or one for each thread. */
typedef struct kv_team {
  kv_worker *worker; /* [workers] */
  int workers;       /* >= 1 */
  /* NULL, or polled within a prompt; once true, and then always, the layer's
   * results are no longer wanted. */
  bool (*stop)(void);
} kv_team;

/* Callbacks of a replay; each may be NULL. `compressed`: after each compression
 * that was due, with the lane as it then is. `seen`: after each attended row of
 * a decode step. `row`: the same for a prompt that is read in chunks.
 * `finished`: after the last step of a layer. concurrent: callbacks may run at
 * the same time for different layers and KV heads; if it is false in any watch,
 * the replay uses a single thread. */
typedef struct kv_watch {
  void *self; /* first argument of each, before the model's layer */
  void (*compressed)(void *self, int layer, int step, const kv_lane *lane);
  void (*seen)(void *self, int layer, int step, const kv_seen *seen);
  void (*row)(void *self, int layer, const kv_seen *seen);
  void (*finished)(void *self, int layer, const kv_lane *lane);
  const kv_cell *of; /* call for this cell only; NULL: for all */
  bool concurrent;
  const struct kv_watch *next; /* the next watch, or NULL */
} kv_watch;

typedef struct kv_layer kv_layer;

/* Opens the stores of cell[cells], at least one, on that backend. The cells are
 * prepared (kv_cell_prepare), and opened for the same trace, prompt_len and
 * observe. Backend, cells and watch (or NULL) must outlive *out. */
kv_rc kv_layer_open(const kv_backend *backend, kv_cell *const *cell, int cells,
                    const kv_watch *watch, kv_layer **out, kv_err *e);
void kv_layer_close(kv_layer *l); /* accepts NULL */

/* Computes the replay's rows ahead, `steps` >= 2 at once. The steps must then
 * follow each other, and the whole layer must be recorded. exact: the kernels
 * for exact rows (sim/replay/measure/tile.h), for workers whose truth was
 * opened for as many steps; NULL: no exact rows. Call it once, after open. */
kv_rc kv_layer_take_tile(kv_layer *l, const kv_kernels *exact, int steps,
                         kv_err *e);

/* Continues with only cell[n], numbers of cells, ascending. Call before begin,
 * or later with a subset; this layer's results of the other cells are then
 * meaningless. After open all cells take part. */
void kv_layer_only(kv_layer *l, int n, const int *cell);

/* Replay of the index-th recorded layer: begin; the whole prompt; every decode
 * step t = prompt_len .. n_tokens - 1 in order; end. kv_layer_prompt enters the
 * prompt for all cells. If the team's stop returned true, it enters only part,
 * and the layer must be begun again or closed. kv_layer_block instead enters
 * tokens first..first+count-1 for one cell, as its needs cut the prompt; later
 * tokens need not exist yet. */
void kv_layer_begin(kv_layer *l, int index);
void kv_layer_prompt(kv_layer *l, const kv_team *team);
void kv_layer_block(kv_layer *l, int cell, int first, int count,
                    const kv_team *team);
/* Token t of a prompt that is read in chunks, for all tokens after the first
 * chunk (a block), in order. The last token of a chunk closes it. */
void kv_layer_prompt_row(kv_layer *l, int cell, int t, const kv_team *team);
void kv_layer_step(kv_layer *l, int t, const kv_team *team);
/* Runs the decode step of token t or, if a question of the cells begins there,
 * enters the whole question as a prompt. Returns the number of tokens. */
int kv_layer_advance(kv_layer *l, int t, const kv_team *team);
/* Finishes the layer. KV_RESOURCE: the device was lost or lacked memory, and no
 * digest of this layer is valid. */
kv_rc kv_layer_end(kv_layer *l, kv_err *e);

/* Makes `to` what `from` is, between two blocks or steps or after end. `to`
 * must have been opened for equal cells on the same backend and begun with the
 * same index, with nothing entered; neither may have layouts (asserted). The
 * caller copies the cells. Cannot fail, but the backend must have `copy`
 * (ref/backend/backend.h; asserted), as the reference has. */
void kv_layer_copy(const kv_layer *from, kv_layer *to);

/* True if the store of any cell has failed since begin (a non-finite number, a
 * lost device); kv_layer_end makes such a cell fail. */
bool kv_layer_failed(const kv_layer *l);

/* The current state of a lane (its number in the layer) of cell number `cell`.
 */
const kv_lane *kv_layer_lane(const kv_layer *l, int cell, int lane);

#endif
