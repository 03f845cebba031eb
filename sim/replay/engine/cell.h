/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell: one trace, one method with all its parameters, one budget. Opening it
 * resolves the parameters, learns what the method needs, and refuses what
 * cannot run, before anything is replayed. Afterwards the cell holds its
 * measures and its row.
 *   kv_cell_open; optionally kv_cell_lay_out; kv_replay; kv_cell_close
 * kv_replay (sim/replay/engine/replay.h) calls kv_cell_prepare and
 * kv_cell_finish, which fills in c->result. Sessions (sim/run/session) do the
 * same with layers of their own. A layer's index counts the recorded layers
 * from 0. Any call may return KV_RESOURCE: memory.
 */
#ifndef KV_SIM_CELL_H
#define KV_SIM_CELL_H

#include "ref/backend/backend.h"
#include "ref/lane/assets.h"
#include "ref/lane/trace.h"
#include "sim/ask/budget.h"
#include "sim/ask/spec.h"
#include "sim/replay/engine/messages.h"
#include "sim/replay/layout/layouts.h"
#include "sim/replay/measure/cost.h"
#include "sim/replay/measure/fidelity.h"

/* What to open a cell for; budget NULL: none was given. */
typedef struct kv_asked_cell {
  const kv_spec *spec;
  const kv_budget *budget;
  int entries; /* the budget on this trace: a number of entries, or the value of
                  another knob (kv_knob_value); else -1 */
  kv_observe observe; /* how prompt_len was chosen */
  /* [KV_SPEC_FILES] the method's files, in the order of its parameters, if they
   * have been read: the cell shares them. NULL elements, or all if this is
   * NULL, are read by path. */
  kv_asset *const *files;
} kv_asked_cell;

typedef struct kv_cell {
  const kv_trace *trace; /* the caller's */
  kv_shape shape;        /* the trace's, with the prompt_len of the replay */
  kv_spec spec;          /* resolved */
  kv_asset *file[KV_SPEC_FILES]; /* the method's files, in the order of its
                                    parameters; NULL: not read */
  kv_asset *asset;               /* their tensors joined; NULL: none */
  kv_plan plan;                  /* for the backend (ref/backend/backend.h) */
  kv_plan *layer;                /* [spec.n_layers] plans of layers, or NULL */
  char *params;                  /* their parameters, one after another */
  /* Layers with a sliding window (sim/replay/engine/cell_windows.c). window:
   * [n_layers recorded] tokens, 0: none; NULL: no layer has one, `left` is
   * unused and spec.windowed is `leave`. If spec.windowed is `leave`, the
   * method does not run on these layers: they hold and see their window. If it
   * is `compress`, the method runs on them, plan.slides is set and `left` is
   * unused. */
  int *window;
  kv_plan left;        /* for stores of layers left to their window */
  kv_plan *left_layer; /* [shape.n_layers] plans of the layers, left.layer */
  char *left_params;   /* their parameters, one after another */
  bool runs;  /* must be replayed: ok or fixed, and not yet in a database */
  int blocks; /* blocks in which the prompt enters */
  int turns;  /* questions that enter as prompts, in `turn`, ascending */
  kv_asking *turn;
  int *group; /* [n_layers recorded] the first layer of each group of layers
                 that hold the rows of a step together (kv_cost_take_groups) */
  kv_cost *cost;
  kv_fidelity *fidelity;         /* NULL if only the cost is measured */
  const kv_layout_list *lay_out; /* requested layouts, or NULL */
  kv_layouts *layouts;           /* their accounts, or NULL */
  kv_messages *messages;         /* if needs.across is KV_DOWN, or NULL */
  /* [trace->n_layers] each, by index, from kv_cell_prepare on: */
  kv_layer_digests *digest;
  double *seconds;  /* spent on this cell alone */
  kv_err *fault;    /* why it failed on a layer; rc 0: it did not */
  int fault_at;     /* index of the lowest layer that failed */
  kv_result result; /* names valid after open, numbers after finish */
} kv_cell;

/* Opens a cell. A cell that cannot run is not an error: KV_OK, and the row's
 * status is refused, with the reason. KV_USAGE if the specification itself is
 * wrong (a method that needs a budget has none). prompt_len in tokens; 0: the
 * trace's own. The trace and kernels are borrowed until the cell is closed,
 * *asked for this call. The cell must not move in memory: its plan points into
 * it. Free it with kv_cell_close, also after a failure. */
kv_rc kv_cell_open(const kv_trace *trace, int prompt_len,
                   const kv_kernels *kernels, const kv_asked_cell *asked,
                   kv_cell *out, kv_err *e);
/* Takes basis and target from the row `asked`, to run a cell again with the
 * values that were found for that row. Unless the cell is refused, its status
 * becomes fixed without a basis, else ok. */
void kv_cell_answer(kv_cell *c, const kv_result *asked);
/* Allocates what a replay measures. fidelity: measure fidelity, not only the
 * cost. apart: keep layers apart, so that each layer's part can be written and
 * read by itself (kv_partial_write). */
kv_rc kv_cell_prepare(kv_cell *c, bool fidelity, bool apart, kv_err *e);
/* Forgets what a layer (index) gave, so that it can be replayed again. The cell
 * must be prepared with `apart` (asserted). */
void kv_cell_forget(kv_cell *c, int layer);
/* Records that the cell failed on a layer (index), and why. Any thread may call
 * it; the row reports the lowest layer, whatever the order of calls. */
void kv_cell_fail(kv_cell *c, int layer, const kv_err *why);
/* Sets the row's status to refused, with the reason `why`, a sentence, which is
 * copied; the cell does not run. Call before prepare. */
void kv_cell_refuse(kv_cell *c, const char *why);
/* Requests memory layouts (NULL: none). Call between open and prepare; `asked`
 * must outlive the cell. The row names them even if the cell does not run. A
 * cell with rows that a layout cannot hold is refused. */
kv_rc kv_cell_lay_out(kv_cell *c, const kv_layout_list *asked, kv_err *e);
/* Fills in c->result from what the replay measured, once; does nothing if the
 * cell was refused or failed. */
kv_rc kv_cell_finish(kv_cell *c, kv_err *e);
void kv_cell_close(kv_cell *c); /* frees and zeroes; accepts NULL and zeroed */

/* Does the method also run on layers with a sliding window? */
static inline bool kv_cell_slides(const kv_cell *c) {
  return c->window && c->spec.windowed == KV_WINDOWED_COMPRESS;
}
/* Is the index-th recorded layer left to its sliding window? */
static inline bool kv_cell_leaves(const kv_cell *c, int index) {
  return c->window && c->window[index] && !kv_cell_slides(c);
}
/* The plan that a store of the index-th recorded layer is opened with. */
static inline const kv_plan *kv_cell_lead(const kv_cell *c, int index) {
  return kv_cell_leaves(c, index) ? &c->left : &c->plan;
}
/* Plan, and budget in entries (-1: none), of the index-th recorded layer. */
static inline const kv_plan *kv_cell_plan(const kv_cell *c, int index) {
  return kv_plan_of(kv_cell_lead(c, index), c->trace->layer[index].data.layer);
}
int kv_cell_entries(const kv_cell *c, int index);

/* What the finished cell used, in the unit of its budget's basis: entries,
 * percent of the prompt's tokens, the share of them that was dropped (ratio),
 * or percent of dense bytes. NaN: no budget. */
double kv_cell_achieved(const kv_cell *c);
/* Calls the method's open with the cell's shape and these parameters (its
 * struct), which it may resolve, and fills in *needs. Returns what open does,
 * and KV_REFUSED if it has needs that the engine cannot meet (ref/lane/needs.h)
 * or changes the floating-point mode. */
kv_rc kv_cell_ask(kv_cell *c, void *params, kv_needs *needs, kv_err *e);
/* If layers have plans of their own, copies to them from c->plan: method,
 * colsum, logits, scores, paged, indices, slides and asked; to plans of windows
 * only logits and scores. Call it after changing any of these. */
void kv_cell_tell_layers(kv_cell *c);

/* --- cell_windows.c: layers with a sliding window ------------------------ */

/* Fills in c->window from the trace. Call it first, once c->spec is set. If no
 * layer has a window, `windowed` becomes `leave`, so that such cells are equal.
 * KV_RESOURCE: memory. */
kv_rc kv_cell_find_windows(kv_cell *c, kv_err *e);
/* Call it when c->plan is complete. With `leave`: makes the plans of the layers
 * with a window; refuses the cell if all layers have one and the method is not
 * dense, or if lanes belong to query heads. With `compress`: sets plan.slides;
 * refuses a method without needs.slides. KV_RESOURCE: memory. */
kv_rc kv_cell_open_windows(kv_cell *c, kv_err *e);
/* Is the budget a share or a ratio in a method that slides? It then refers to
 * what each layer can see, and becomes a list of entries. */
bool kv_cell_shares(const kv_cell *c, const kv_budget *b);
/* Tokens that a share refers to: how many tokens of the prompt a row of the
 * layer sees (the model's number; a layer that is not recorded has no window).
 */
int kv_cell_share_of(const kv_cell *c, int layer);
/* Their mean over the recorded layers on which the method runs. */
double kv_cell_mean_share(const kv_cell *c);
/* Most tokens of the prompt that enter at once: those of a chunk, or of a block
 * that the method needs; 0: all. */
static inline int kv_cell_block(const kv_cell *c) {
  return c->shape.chunk ? c->shape.chunk : c->plan.needs.block;
}

/* --- the ledger --------------------------------------------------------- */

/* For kv_cell_prepare: opens c->cost; lanes: of a layer. KV_RESOURCE: memory.
 */
kv_rc kv_cell_open_cost(kv_cell *c, int lanes, bool apart, kv_err *e);
/* What the finished cell, and dense, took in a basis of bytes, as sums over the
 * steps instead of means. */
void kv_cell_in_basis(const kv_cell *c, kv_basis basis, int64_t *bytes,
                      int64_t *dense);
/* Bytes of the dense cache of the recorded layers, in the trace's own type,
 * after t tokens seen, summed over t = first..last. attended: only bytes that
 * the decode steps read; a row that several query heads read counts once. */
int64_t kv_cell_dense(const kv_cell *c, int first, int last, bool attended);

/* --- blocks, if later questions enter as prompts ------------------------- */

/* End, in tokens seen, of the last prompt that began in the first `step`. */
int kv_cell_prompt_at(const kv_cell *c, int step);
/* The question that begins at token t and enters as a prompt, or NULL. */
const kv_asking *kv_cell_asks(const kv_cell *c, int t);
/* Blocks are numbered: first those of the prompt, then one for each token.
 * Block n consists of tokens *first..*first+*count-1; *decodes: they enter as a
 * decode step, not as a prompt. False: the token is inside a later prompt's
 * block, and no block ends with it. */
bool kv_cell_closing(const kv_cell *c, int n, int *first, int *count,
                     bool *decodes);

/* --- a prompt that is read in chunks ------------------------------------- */

/* Refuses a cell with shape.chunk if its method, layers, questions or trace do
 * not allow a prompt in chunks. */
void kv_cell_check_chunks(kv_cell *c);

/* --- the method's files -------------------------------------------------- */

/* Reads the method's files, or shares those of files[KV_SPEC_FILES] that are
 * not NULL, into c->file and c->asset, and sets the parameters; does nothing if
 * the method reads none. files may be NULL. KV_USAGE: a required file is not
 * named. KV_INPUT, KV_REFUSED: only this cell cannot run. */
kv_rc kv_cell_lend(kv_cell *c, kv_asset *const *files, kv_err *e);
/* The part of the row's key that identifies the code: the method's and its
 * files' (kv_code). */
void kv_cell_code(const kv_cell *c, char out[65]);

/* --- cell_layers.c, for cell.c: a budget for each layer ------------------ */

/* Copies a list given by -b, or a share of what each layer can see
 * (kv_cell_shares), into c->spec, as entries of each layer. A share that gives
 * all layers the same number becomes one budget. KV_USAGE: one gets none. */
kv_rc kv_cell_take_list(kv_cell *c, const kv_budget *b, kv_err *e);
/* Writes the name of the specification's list (kv_budget_name_layers). */
kv_rc kv_cell_name_list(const kv_spec *s, char out[64], kv_err *e);
/* Mean entries of the list over the recorded layers on which the method runs,
 * rounded down; -1: there is no such layer, or the list does not have one
 * budget for each layer. */
int kv_cell_mean(const kv_cell *c);
/* Opens the method once for every layer of the list: fills in c->layer,
 * c->params and c->plan. KV_REFUSED: only this cell cannot run. */
kv_rc kv_cell_open_list(kv_cell *c, kv_err *e);

/* --- partial.c: the results of one layer, as bytes ----------------------- */

/* Ledger, layouts, values of fidelity, digests, seconds, and the reason of a
 * failure, so that an interrupted replay can be continued. A cell that reads
 * the parts of all its layers, whoever replayed them, finishes with the same
 * row as one replay, to the bit.
 *
 * The bytes are in this machine's number formats and begin with what they
 * belong to: layer, lengths, measures, k of recall_budget, layouts. A cell that
 * differs in any of these does not read them. They contain neither trace,
 * method and parameters nor a checksum nor the version of the code; the caller
 * must add these (sim/run/sweep/keeper.h). */

/* Bytes of a part, the same for every layer: about 8 a measure, query head and
 * decode step. The cell must be prepared with its layers apart. */
size_t kv_partial_size(const kv_cell *c);
/* Writes the part of a finished layer (index) into kv_partial_size bytes. */
void kv_partial_write(const kv_cell *c, int layer, void *out);
/* Reads a part of `size` bytes into the cell as its layer (index). If the part
 * is of a failed layer, the cell fails. False, and nothing changed, if the
 * bytes are not a part of such a cell. */
bool kv_partial_read(kv_cell *c, int layer, size_t size, const void *from);

#endif
