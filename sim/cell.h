/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell: one trace, one method with all its parameters, one budget. It is
 * opened before anything is replayed - parameters resolved, needs known, what
 * cannot run refused - and carries its measures and its row afterwards.
 */
#ifndef KV_SIM_CELL_H
#define KV_SIM_CELL_H

#include "ref/backend.h"
#include "sim/budget.h"
#include "sim/cost.h"
#include "sim/fidelity.h"
#include "sim/spec.h"
#include "traces/decisions.h"
#include "traces/trace.h"

/* What a cell is asked for; budget NULL: none was given. */
typedef struct kv_asked_cell {
  const kv_spec *spec;
  const kv_budget *budget;
  int entries; /* the integer that budget means for this trace; else -1 */
} kv_asked_cell;

typedef struct kv_cell {
  const kv_trace *trace;
  kv_shape shape; /* the trace's, with the prompt_len of the replay */
  kv_spec spec;   /* resolved */
  kv_decisions_file *decisions; /* what a method follows, or NULL */
  kv_plan plan;
  bool runs;  /* ok or fixed, and not answered by a database */
  int top;    /* k of recall_budget, or -1 */
  int blocks; /* the prompt enters in so many */
  kv_cost *cost;
  kv_fidelity *fidelity;    /* NULL where only the cost is asked for */
  kv_layer_digests *digest; /* [trace->n_layers] */
  double seconds;           /* its own share of the work */
  int fault_at;             /* index of the lowest layer that failed */
  kv_result result;
} kv_cell;

/* Resolves and checks. A cell that cannot run is no error: its row says
 * refused and why. KV_USAGE where the specification itself is wrong (no
 * budget at all). prompt_len 0: the trace's own. Freed with kv_cell_close,
 * also after a failure. */
kv_rc kv_cell_open(const kv_trace *trace, int prompt_len,
                   const kv_kernels *kernels, const kv_asked_cell *asked,
                   kv_cell *out, kv_err *e);
/* Memory for what a replay measures; fidelity: not only the cost. */
kv_rc kv_cell_prepare(kv_cell *c, bool fidelity, kv_err *e);
/* The row, from what the replay left. */
kv_rc kv_cell_finish(kv_cell *c, kv_err *e);
void kv_cell_close(kv_cell *c);

/* Achieved, in the unit of the basis: entries, or percent. NaN: none. */
double kv_cell_achieved(const kv_cell *c);

#endif
