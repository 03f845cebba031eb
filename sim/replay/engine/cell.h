/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell: one trace, one method with all its parameters, one budget. Opening it
 * resolves the parameters, learns what the method needs, and refuses what
 * cannot run, before anything is replayed; afterwards the cell carries its
 * measures and its row.
 *   kv_cell_open; perhaps kv_cell_lay_out; kv_replay; kv_cell_close
 * kv_replay (sim/replay/engine/replay.h) calls kv_cell_prepare and
 * kv_cell_finish, which fills c->result. Sessions (sim/run/session) do the same
 * with layers of their own. A layer's index counts the recorded layers from 0.
 * KV_RESOURCE: memory, of any call.
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
  int entries; /* what budget means for this trace: a number of entries, or the
                  value of another knob (kv_knob_value); else -1 */
  kv_observe observe; /* what prompt_len was asked for as */
  /* [KV_SPEC_FILES] the method's files, in the order of its parameters, where
   * they have been read already: the cell shares them. One that is NULL, and
   * all where this is NULL: read by its path. */
  kv_asset *const *files;
} kv_asked_cell;

typedef struct kv_cell {
  const kv_trace *trace; /* the caller's */
  kv_shape shape; /* the trace's, but with the prompt_len of the replay */
  kv_spec spec;   /* resolved */
  kv_asset *file[KV_SPEC_FILES]; /* that its method reads, in the order of its
                                    parameters; NULL: not read */
  kv_asset *asset; /* the tensors of all of them; NULL: there is none */
  kv_plan plan;    /* what the backend is to do (ref/backend/backend.h) */
  kv_plan *layer;  /* [spec.n_layers] or NULL: each layer's own */
  char *params;    /* parameters of those plans, one after another */
  /* Layers with a sliding window (sim/replay/engine/cell_windows.c). window:
   * [n_layers recorded] of each, 0: none; NULL: no layer has one, and the rest
   * is unused. Where spec.windowed is `leave` the method does not run on them:
   * what they hold and see is their window. Where it is `compress` it does,
   * plan.slides is set and `left` unused; without windows spec.windowed is
   * `leave`. */
  int *window;
  kv_plan left;        /* what their stores are opened with */
  kv_plan *left_layer; /* [shape.n_layers] plans of the layers, left.layer */
  char *left_params;   /* parameters of those plans, one after another */
  bool runs;  /* to be replayed: ok or fixed, and not already in a database */
  int blocks; /* blocks in which the prompt enters */
  int turns;  /* questions that enter as prompts, in `turn`, ascending */
  kv_asking *turn;
  int *group; /* [n_layers recorded] the first layer of those that hold the rows
                 that a step makes together (kv_cost_take_groups) */
  kv_cost *cost;
  kv_fidelity *fidelity;         /* NULL where only the cost is asked for */
  const kv_layout_list *lay_out; /* layouts asked for, or NULL */
  kv_layouts *layouts;           /* their accounts, or NULL */
  kv_messages *messages;         /* where needs.across is KV_DOWN, or NULL */
  /* [trace->n_layers] each, by index; from kv_cell_prepare on: */
  kv_layer_digests *digest;
  double *seconds;  /* spent on this cell alone */
  kv_err *fault;    /* why it failed on a layer; rc 0: it did not */
  int fault_at;     /* index of the lowest layer that failed */
  kv_result result; /* its names from open on, its numbers from finish on */
} kv_cell;

/* Opens a cell. A cell that cannot run is no error: KV_OK, with the row's
 * status refused and the reason. KV_USAGE if the specification itself is wrong
 * (a method that needs a budget has none). prompt_len in tokens; 0: the trace's
 * own. The trace and kernels are borrowed until the cell is closed, *asked for
 * this call. The cell may not move later: its plan points into it. Free with
 * kv_cell_close, also after a failure. */
kv_rc kv_cell_open(const kv_trace *trace, int prompt_len,
                   const kv_kernels *kernels, const kv_asked_cell *asked,
                   kv_cell *out, kv_err *e);
/* Takes basis and target from the row `asked`, for a cell that was opened with
 * the values that were found for it, to run it again. Unless it is refused its
 * status is then fixed where there is no basis, else ok. */
void kv_cell_answer(kv_cell *c, const kv_result *asked);
/* Allocates what a replay measures. fidelity: measure fidelity, not only the
 * cost. apart: keep layers apart, so that what one layer gives can be written
 * and read by itself (kv_partial_write). */
kv_rc kv_cell_prepare(kv_cell *c, bool fidelity, bool apart, kv_err *e);
/* Forgets what a layer (index) gave, so that it can be replayed anew; of a cell
 * prepared with `apart` (asserted). */
void kv_cell_forget(kv_cell *c, int layer);
/* Records that the cell failed on a layer (index), and why. May be called from
 * any thread; the row reports the lowest layer, whatever the order of calls. */
void kv_cell_fail(kv_cell *c, int layer, const kv_err *why);
/* Sets the row's status to refused for the reason `why`, a sentence, which is
 * copied; the cell does not run. Before prepare. */
void kv_cell_refuse(kv_cell *c, const char *why);
/* Asks for memory layouts (NULL: none). Call between open and prepare; `asked`
 * must outlive the cell. The row names them even if the cell does not run; a
 * cell with rows that a layout has no place for is refused. */
kv_rc kv_cell_lay_out(kv_cell *c, const kv_layout_list *asked, kv_err *e);
/* Fills c->result from what the replay measured; does nothing for a cell that
 * was refused or failed. Once. */
kv_rc kv_cell_finish(kv_cell *c, kv_err *e);
void kv_cell_close(kv_cell *c); /* frees and zeroes; accepts NULL and zeroed */

/* True if the method runs on layers with a sliding window, too. */
static inline bool kv_cell_slides(const kv_cell *c) {
  return c->window && c->spec.windowed == KV_WINDOWED_COMPRESS;
}
/* True if the index-th recorded layer has a sliding window and is left to it.
 */
static inline bool kv_cell_leaves(const kv_cell *c, int index) {
  return c->window && c->window[index] && !kv_cell_slides(c);
}
/* What a store of the index-th recorded layer is opened with: of all layers
 * that the method runs on the one, of those with windows the other. */
static inline const kv_plan *kv_cell_lead(const kv_cell *c, int index) {
  return kv_cell_leaves(c, index) ? &c->left : &c->plan;
}
/* The plan, and the entries of the budget (-1: none), of the index-th recorded
 * layer. */
static inline const kv_plan *kv_cell_plan(const kv_cell *c, int index) {
  return kv_plan_of(kv_cell_lead(c, index), c->trace->layer[index].data.layer);
}
int kv_cell_entries(const kv_cell *c, int index);

/* What the finished cell really used, in the unit of its budget's basis:
 * entries, percent of the prompt's tokens, the share of them that went (ratio),
 * or percent of dense bytes. NaN: no budget. */
double kv_cell_achieved(const kv_cell *c);
/* Calls the method's open with the cell's shape and these parameters (its
 * struct), which it may resolve, and fills *needs. Returns what it does, as
 * KV_USAGE where it needs a budget and has none; KV_REFUSED also if it asks for
 * needs that the engine cannot meet (ref/lane/needs.h), or changes the
 * floating-point mode. */
kv_rc kv_cell_ask(kv_cell *c, void *params, kv_needs *needs, kv_err *e);
/* If layers have plans of their own, copies to them from c->plan: method,
 * colsum, logits, scores, paged, indices, slides and asked; to plans of windows
 * logits and scores alone. Call after changing those. */
void kv_cell_tell_layers(kv_cell *c);

/* --- cell_windows.c: layers with a sliding window ------------------------ */

/* Fills c->window from the trace. Call first, when c->spec is there: where no
 * layer has a window its `windowed` becomes `leave`, so that such a cell is the
 * same. KV_RESOURCE: memory. */
kv_rc kv_cell_find_windows(kv_cell *c, kv_err *e);
/* Call when c->plan is complete. To `leave`: makes the plans of the layers with
 * a window; refuses the cell where all have one and the method is not dense, or
 * where lanes are of query heads. To `compress`: sets plan.slides; refuses a
 * method that does not bear that entries leave, by its needs. KV_RESOURCE:
 * memory. */
kv_rc kv_cell_open_windows(kv_cell *c, kv_err *e);
/* Is the budget a share of what each layer can see, and so a list of entries?
 * Where the method slides and the budget is a share or a ratio. */
bool kv_cell_shares(const kv_cell *c, const kv_budget *b);
/* Tokens that a share is of: of the prompt, as many as a row of the layer (the
 * model's number; one that is not recorded has no window) sees. */
int kv_cell_share_of(const kv_cell *c, int layer);
/* The same as a mean over the recorded layers on which the method runs. */
double kv_cell_mean_share(const kv_cell *c);
/* Most tokens of the prompt that enter at once: of a chunk, or of a block that
 * the method asks for; 0: all. */
static inline int kv_cell_block(const kv_cell *c) {
  return c->shape.chunk ? c->shape.chunk : c->plan.needs.block;
}

/* --- the ledger --------------------------------------------------------- */

/* For kv_cell_prepare: opens c->cost; lanes: of a layer. KV_RESOURCE: memory.
 */
kv_rc kv_cell_open_cost(kv_cell *c, int lanes, bool apart, kv_err *e);
/* What the finished cell took in a basis of bytes, and what dense takes; sums
 * over the steps in place of means. */
void kv_cell_in_basis(const kv_cell *c, kv_basis basis, int64_t *bytes,
                      int64_t *dense);
/* Bytes of the dense cache of the recorded layers in the trace's own type after
 * t tokens seen, summed over t = first..last; attended: those that its decode
 * steps read, where a row that several query heads read counts once. */
int64_t kv_cell_dense(const kv_cell *c, int first, int last, bool attended);

/* --- blocks, where later questions enter as prompts ---------------------- */

/* Tokens seen at the end of the last prompt that had begun when `step` tokens
 * were seen. */
int kv_cell_prompt_at(const kv_cell *c, int step);
/* The question that begins at token t and enters as a prompt, or NULL. */
const kv_asking *kv_cell_asks(const kv_cell *c, int t);
/* Blocks are numbered: those of the prompt, then one a token. With the n-th,
 * tokens *first..*first+*count-1 enter, as a prompt or, where *decodes, as a
 * decode step. False: the token is within a later prompt's block, and no block
 * ends with it. */
bool kv_cell_closing(const kv_cell *c, int n, int *first, int *count,
                     bool *decodes);

/* --- a prompt that is read in chunks ------------------------------------- */

/* Refuses a cell of shape.chunk whose method, layers, questions or trace do not
 * let its prompt be read in chunks. */
void kv_cell_check_chunks(kv_cell *c);

/* --- the method's files -------------------------------------------------- */

/* Reads the method's files, or shares those of files[KV_SPEC_FILES] that are
 * not NULL, into c->file and c->asset and puts them into the parameters; does
 * nothing if the method reads none. files may be NULL. KV_USAGE: a file must be
 * named and is not. KV_INPUT, KV_REFUSED: only this cell cannot run. */
kv_rc kv_cell_lend(kv_cell *c, kv_asset *const *files, kv_err *e);
/* The part of the row's key that names code: the method's, and of the files
 * that were read (kv_code). */
void kv_cell_code(const kv_cell *c, char out[65]);

/* --- cell_layers.c, for cell.c: a budget a layer ------------------------- */

/* Copies a list given by -b, or a share of what each layer can see
 * (kv_cell_shares), into c->spec, as entries of each layer; a share that is as
 * many in all becomes one budget. KV_USAGE: a layer would have none. */
kv_rc kv_cell_take_list(kv_cell *c, const kv_budget *b, kv_err *e);
/* Writes the name of the specification's list (kv_budget_name_layers). */
kv_rc kv_cell_name_list(const kv_spec *s, char out[64], kv_err *e);
/* Mean entries of the list over the recorded layers on which the method runs,
 * rounded down; -1: there are none, or it has not as many as the model has
 * layers. */
int kv_cell_mean(const kv_cell *c);
/* Opens the method once for every layer of the list: fills c->layer, c->params
 * and c->plan. KV_REFUSED: only this cell cannot run. */
kv_rc kv_cell_open_list(kv_cell *c, kv_err *e);

/* --- partial.c: what one layer gave, as bytes ---------------------------- */

/* Ledger, layouts, values of fidelity, digests, seconds, the reason of a
 * failure: so that an interrupted replay can be continued. A cell that reads
 * the parts of all its layers, whoever replayed them, finishes with the same
 * row as one replay, to the bit.
 *
 * The bytes are in this machine's number formats and begin with what they were
 * made for: layer, lengths, measures, k of recall_budget, layouts. A cell where
 * any of these is another does not read them. They hold neither trace, method
 * and parameters nor a checksum nor the version of the code; the caller must
 * add these (sim/run/sweep/keeper.h). */

/* Bytes of a part, the same for every layer: about 8 a measure, query head and
 * decode step. The cell was prepared with its layers apart. */
size_t kv_partial_size(const kv_cell *c);
/* Writes the part of a layer (index) that has ended into kv_partial_size bytes.
 */
void kv_partial_write(const kv_cell *c, int layer, void *out);
/* Reads a part of `size` bytes into the cell as its layer (index); where the
 * part says that the layer failed, the cell fails. False, and nothing changed,
 * if the bytes are not a part of such a cell. */
bool kv_partial_read(kv_cell *c, int layer, size_t size, const void *from);

#endif
