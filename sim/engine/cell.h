/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell: one trace, one method with all its parameters, one budget. Opening it
 * resolves the parameters, learns what the method needs, and refuses what
 * cannot run, before anything is replayed; afterwards the cell carries its
 * measures and its row.
 *   kv_cell_open; kv_cell_prepare; replay (sim/engine/replay.h);
 *   kv_cell_finish, which fills c->result; kv_cell_close
 */
#ifndef KV_SIM_CELL_H
#define KV_SIM_CELL_H

#include "ref/backend/backend.h"
#include "sim/engine/messages.h"
#include "sim/layout/layouts.h"
#include "sim/measure/cost.h"
#include "sim/measure/fidelity.h"
#include "sim/spec/budget.h"
#include "sim/spec/spec.h"
#include "traces/trace/trace.h"

/* What to open a cell for; budget NULL: none was given. */
typedef struct kv_asked_cell {
  const kv_spec *spec;
  const kv_budget *budget;
  int entries; /* what budget means for this trace: a number of entries, or the
                  value of another knob (kv_knob_value); else -1 */
  kv_observe observe; /* what prompt_len was asked for as */
} kv_asked_cell;

typedef struct kv_cell {
  const kv_trace *trace;
  kv_shape shape;  /* the trace's, but with the prompt_len of the replay */
  kv_spec spec;    /* resolved */
  kv_asset *asset; /* the file that its method reads, or NULL */
  kv_plan plan;
  kv_plan *layer; /* [spec.n_layers] or NULL: each layer's own */
  char *params;   /* parameters of those plans, one after another */
  bool runs;  /* to be replayed: ok or fixed, and not already in a database */
  int blocks; /* blocks in which the prompt enters */
  int turns;  /* questions that enter as prompts, in `turn`, ascending */
  kv_asking *turn;
  kv_cost *cost;
  kv_fidelity *fidelity;         /* NULL where only the cost is asked for */
  const kv_layout_list *lay_out; /* layouts asked for, or NULL */
  kv_layouts *layouts;           /* their accounts, or NULL */
  kv_messages *messages;         /* where needs.across is KV_DOWN, or NULL */
  kv_layer_digests *digest;      /* [trace->n_layers] */
  double *seconds;               /* [n_layers] spent on this cell alone */
  kv_err *fault; /* [n_layers] why it failed on a layer; rc 0: it did not */
  int fault_at;  /* index of the lowest layer that failed */
  kv_result result;
} kv_cell;

/* Opens a cell. A cell that cannot run is no error: KV_OK, with the row's
 * status refused and the reason. KV_USAGE if the specification itself is wrong
 * (a method that needs a budget has none). prompt_len 0: the trace's own. The
 * trace, kernels and *asked->spec are borrowed. Free with kv_cell_close, also
 * after a failure. */
kv_rc kv_cell_open(const kv_trace *trace, int prompt_len,
                   const kv_kernels *kernels, const kv_asked_cell *asked,
                   kv_cell *out, kv_err *e);
/* The opened cell is the answer to what that row asked for: its knob was found
 * then, and is typed now. */
void kv_cell_answer(kv_cell *c, const kv_result *asked);
/* Allocates what a replay measures. fidelity: measure fidelity, not only the
 * cost. apart: keep layers apart, so that what one layer gives can be written
 * and read by itself (sim/engine/partial.h). */
kv_rc kv_cell_prepare(kv_cell *c, bool fidelity, bool apart, kv_err *e);
/* Forgets what a layer (index) gave, so that it can be replayed anew. */
void kv_cell_forget(kv_cell *c, int layer);
/* Records that the cell failed on a layer (index). May be called from any
 * thread; the row reports the lowest layer, whatever the order of calls. */
void kv_cell_fail(kv_cell *c, int layer, const kv_err *why);
/* The cell does not run, for this reason, which its row says. */
void kv_cell_refuse(kv_cell *c, const char *why);
/* Asks for memory layouts. Call between open and prepare; `asked` must outlive
 * the cell. The row names them even if the cell does not run. */
kv_rc kv_cell_lay_out(kv_cell *c, const kv_layout_list *asked, kv_err *e);
/* Fills c->result from what the replay measured. */
kv_rc kv_cell_finish(kv_cell *c, kv_err *e);
void kv_cell_close(kv_cell *c);

/* The plan, and the entries of the budget (-1: none), of the index-th recorded
 * layer. */
static inline const kv_plan *kv_cell_plan(const kv_cell *c, int index) {
  return kv_plan_of(&c->plan, c->trace->layer[index].data.layer);
}
int kv_cell_entries(const kv_cell *c, int index);

/* What the cell really used, in the unit of its budget's basis: entries, or
 * percent of dense. NaN: no budget. */
double kv_cell_achieved(const kv_cell *c);

/* Calls the method's open. KV_REFUSED if it refuses, if it asks for needs that
 * the engine cannot meet (ref/lane/needs.h), or if it changes the
 * floating-point mode. */
kv_rc kv_cell_ask(kv_cell *c, void *params, kv_needs *needs, kv_err *e);
/* If layers have plans of their own, copies to them the cell's method and what
 * is known of rows and logits. Call after changing those in c->plan. */
void kv_cell_tell_layers(kv_cell *c);

/* --- cell_turns.c: where closings are ------------------------------------- */

/* Tokens at the end of the last prompt that has begun before `step` tokens were
 * seen. */
int kv_cell_prompt_at(const kv_cell *c, int step);
/* The question that begins at token t, or NULL. */
const kv_asking *kv_cell_asks(const kv_cell *c, int t);
/* Closings are numbered: the blocks of the prompt, then one a token. At the
 * n-th tokens *first..*first+*count-1 enter, as a prompt or, where *decodes, as
 * a step. False: it is a token within a block, and nothing closes. */
bool kv_cell_closing(const kv_cell *c, int n, int *first, int *count,
                     bool *decodes);

/* --- cell_file.c, for cell.c: the method's file --------------------------- */

/* Reads the method's file and puts it into the parameters; does nothing if the
 * method reads none. KV_USAGE: the file must be named and is not. KV_INPUT,
 * KV_REFUSED: only this cell cannot run. */
kv_rc kv_cell_lend(kv_cell *c, kv_err *e);

/* --- cell_layers.c, for cell.c: a budget a layer ------------------------- */

/* Copies a list given by -b into the specification. */
kv_rc kv_cell_take_list(kv_cell *c, const kv_budget *b, kv_err *e);
/* The name of the specification's list (kv_budget_name_layers). */
kv_rc kv_cell_name_list(const kv_spec *s, char out[64], kv_err *e);
/* Mean entries over the recorded layers, rounded down. */
int kv_cell_mean(const kv_cell *c);
/* Opens the method once for every layer. KV_REFUSED: only this cell cannot run.
 */
kv_rc kv_cell_open_list(kv_cell *c, kv_err *e);

#endif
