/* SPDX-License-Identifier: Apache-2.0
 *
 * Fidelity of one cell: how far the compressed attention of every decode row
 * is from the exact attention of the full cache, given the same query. One
 * value per measure, layer, query head and decode step, binary64, arithmetic
 * 10; aggregated at the end.
 *
 * What the words mean here. A token is *held* by the view if an entry of the
 * view of weight 1 is that token: mass and the recalls count held tokens, a
 * merged entry's members count in mass_merged alone. p^ of a merged entry is
 * divided equally among its members. A needle's row asks where the token is
 * that it should look for: stored (weight 1), merged (its row is a mean now),
 * held by the view, and the p^ it gets (a merged one: its share); needle_all
 * stands at the last decode row of each answer and is 1 if every decode row of
 * it had its token held by the view. A value that does not exist (no budget,
 * no needle) is NaN.
 *
 * Open-loop: the recorded query does not feel the approximation.
 *
 * All memory is taken at open: 8 bytes a measure, layer, head and step.
 * Rows of different (layer, lane, step) may be filled by different threads,
 * each with its own truth; needle_all wants the steps of a lane in order.
 */
#ifndef KV_SIM_FIDELITY_H
#define KV_SIM_FIDELITY_H

#include "sim/result.h"
#include "sim/truth.h"

typedef struct kv_fidelity kv_fidelity;

/* An answer: tokens start..end-1, which stand at source_start.. in the
 * context; row start-1+i looks for token source_start+i. */
typedef struct kv_needle {
  int start, end, source_start, source_end;
} kv_needle;

/* layer[0..layers): the model's numbers of the recorded layers, ascending.
 * budget: the k of recall_budget, or -1. */
kv_rc kv_fidelity_open(const kv_shape *shape, int layers, const int *layer,
                       int budget, int n_needles, const kv_needle *needle,
                       kv_fidelity **out, kv_err *e);
void kv_fidelity_close(kv_fidelity *f); /* accepts NULL */
/* Forgets all values: the cell is replayed anew. */
void kv_fidelity_begin(kv_fidelity *f);

/* The row of truth, as the lane's query heads saw it. layer: index among the
 * recorded ones. The truth lends its scratch and is not changed otherwise. */
void kv_fidelity_row(kv_fidelity *f, int layer, const kv_seen *seen,
                     kv_truth *truth);

/* One value, NaN = null: query head h, token t of the row. */
double kv_fidelity_value(const kv_fidelity *f, kv_measure m, int layer, int h,
                         int t);

/* Fills stat and part (layers, then KV heads, then at most 16 bins of steps;
 * `kept` of parts is kv_cost_finish's). May be called once. */
kv_rc kv_fidelity_finish(kv_fidelity *f, kv_result *r, kv_err *e);

#endif
