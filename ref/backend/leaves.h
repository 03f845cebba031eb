/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest trees of a layer in flight (ref/lane/journal.h, ref/lane/shown.h),
 * shared by all backends with digests: at each block or step a leaf of records
 * and, if due, of states, outputs and scores. Order of calls: begin for a
 * layer; records, state, output and scores at the end of a block or step, each
 * if it has something; end. Nothing fails.
 */
#ifndef KV_REF_LEAVES_H
#define KV_REF_LEAVES_H

#include "ref/backend/backend.h"

/* The four trees so far. */
typedef struct kv_leaves {
  kv_tree journal, states, outputs, scores;
} kv_leaves;

void kv_leaves_begin(kv_leaves *l);
/* At every block and step: the records of lane[0..lanes), all views and then
 * all verbs; empties the lanes' words. said: the published message, of `bytes`
 * bytes, or NULL. */
void kv_leaves_records(kv_leaves *l, int lanes, kv_lane *lane,
                       const kv_message *said, size_t bytes);
/* If a compression was due, and after the last step: state[lanes], each from
 * kv_lane_state, before that compression or at the end. */
void kv_leaves_state(kv_leaves *l, int lanes, const kv_digest *state);
/* At a decode step: out[n_heads][d_v + 1], each head's output, then its LSE. */
void kv_leaves_output(kv_leaves *l, const kv_shape *shape, const float *out);
/* The scores that selections saw in this step, if any; step: tokens seen. */
void kv_leaves_scores(kv_leaves *l, kv_shows *shows, int step);
/* The roots D(l) of the four trees. */
kv_layer_digests kv_leaves_end(kv_leaves *l);

#endif
