/* SPDX-License-Identifier: Apache-2.0
 *
 * Fidelity of one cell: how far the compressed attention of every decode row is
 * from the exact attention of the full cache, for the same query. One value per
 * measure, layer, query head and decode step, in binary64, arithmetic 10;
 * aggregated at the end.
 *
 * Terms: a token is *held* by the view if an entry of weight 1 in the view is
 * that token. Mass and recalls count held tokens; members of merged entries
 * count only in mass_merged. p^ is the probability that the compressed
 * attention gives; a merged entry's p^ is divided equally among its members. A
 * needle row records what became of the token that it should look for: stored
 * (as an entry of weight 1), merged (its row is now a mean), held by the view,
 * its p^ (its share, if merged), and its exact p (needle_dense; kv_needle_share
 * compares the two). needle_all has one value for each answer, at its last
 * decode row: 1 if the view held the token in every decode row of the answer. A
 * value that does not exist (no budget, no needle) is NaN.
 *
 * If the prompt is read in chunks (kv_shape.chunk), rows after the first chunk
 * have three measures of their own: the error of their output, the exact mass
 * of their views, and the share of visible tokens in these. The first chunk
 * attends as a whole prompt does, and is exact.
 *
 * Open loop: queries are the recorded ones; they do not change with the
 * approximation.
 *
 * Open allocates everything: 8 bytes a measure, layer, head and step. At most
 * 32 MiB, or the layers in flight, are in memory; the rest is in a file
 * (sim/replay/measure/spill.h). Different threads may fill rows of different
 * (layer, lane, step), each with its own truth; but needle_all needs the steps
 * of a lane in ascending order.
 */
#ifndef KV_SIM_FIDELITY_H
#define KV_SIM_FIDELITY_H

#include "sim/replay/measure/copier.h"
#include "sim/replay/measure/result.h"
#include "sim/replay/measure/truth.h"

typedef struct kv_fidelity kv_fidelity;

/* An answer of the trace: tokens start..end-1 repeat tokens
 * source_start..source_end-1 of the context. If one range is longer, its end is
 * ignored. Row start-1+i predicts token start+i and should look for token
 * source_start+i. Rows of the prompt look for nothing. If two answers claim a
 * row, the first in the list gets it. */
typedef struct kv_needle {
  int start, end, source_start, source_end;
} kv_needle;

/* Opens the fidelity of one cell. layer[layers]: the model's numbers of the
 * recorded layers, ascending. budget[layers]: entries, the k of recall_budget
 * (how many of the k tokens with the largest exact logits the view holds) for
 * each layer; below 1 in the first: there is none. needle[n_needles]: the
 * trace's answers. shape outlives *out; the arrays are copied. KV_RESOURCE:
 * memory, or space on the disk; *out is then NULL. */
kv_rc kv_fidelity_open(const kv_shape *shape, int layers, const int *layer,
                       const int *budget, int n_needles,
                       const kv_needle *needle, kv_fidelity **out, kv_err *e);
void kv_fidelity_close(kv_fidelity *f); /* accepts NULL */

/* The values of one layer, by its index among the recorded layers. Call
 * `begin`, which sets them to NaN, before the layer's first row. Call `end`
 * after its last; it lets them leave memory. `copy` writes a finished layer's
 * values, or reads them instead of begin, rows and end
 * (sim/replay/measure/copier.h); both must be opened alike. */
void kv_fidelity_layer_begin(kv_fidelity *f, int layer);
void kv_fidelity_layer_end(const kv_fidelity *f, int layer);
void kv_fidelity_layer_copy(kv_fidelity *f, int layer, kv_copier *x);

/* Measures one attended row (`seen`) against the exact row in `truth`, which
 * must have been filled for the same token and KV head. layer: index among the
 * recorded layers. Uses truth's scratch, and lets it compute what it lacks
 * (kv_truth_weigh, kv_truth_mark). */
void kv_fidelity_row(kv_fidelity *f, int layer, const kv_seen *seen,
                     kv_truth *truth);

/* The same for a prompt row after the first chunk, with measures for those. */
void kv_fidelity_prompt_row(kv_fidelity *f, int layer, const kv_seen *seen,
                            kv_truth *truth);

/* One value, of a layer (its index among the recorded ones), query head h and
 * the row of token t: of decoding or, if m is such a measure, of the prompt
 * after its first chunk (asserted). NaN: there is none. For tests, which
 * compare values one by one. */
double kv_fidelity_value(const kv_fidelity *f, kv_measure m, int layer, int h,
                         int t);

/* Aggregates all values into r, the cell's row of results: r->stat, r->drift,
 * r->part (layers, then KV heads, then at most 16 bins of steps; kv_cost_finish
 * sets `kept`) and r->step_mean. Call it once, after every layer was filled or
 * read. Besides the row it allocates memory for one measure's values in a
 * layer, or 8 MiB if that is more. KV_RESOURCE: memory; free r with
 * kv_result_free also then. */
kv_rc kv_fidelity_finish(kv_fidelity *f, kv_result *r, kv_err *e);

/* Sets needle_kept and needle_worst of t, also after every layer. Sums are
 * chains: layers, KV heads, query heads, then steps, each ascending.
 * KV_RESOURCE: memory for a kv_kept of each layer and KV head. */
kv_rc kv_fidelity_kept(const kv_fidelity *f, kv_totals *t, kv_err *e);

#endif
