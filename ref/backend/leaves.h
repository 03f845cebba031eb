/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest trees of a layer in flight (journal.h, shown.h), as every backend
 * grows them: a leaf of records and, where due, of states, outputs and scores
 * a step.
 */
#ifndef KV_REF_LEAVES_H
#define KV_REF_LEAVES_H

#include "ref/backend/backend.h"

typedef struct kv_leaves {
  kv_tree journal, states, outputs, scores;
} kv_leaves;

void kv_leaves_begin(kv_leaves *l);
/* The step's records of all lanes, views first; the lanes' words are empty
 * afterwards. said: the message of `bytes` that the layer published, or NULL.
 */
void kv_leaves_records(kv_leaves *l, int lanes, kv_lane *lane,
                       const kv_message *said, size_t bytes);
/* state[lanes] of kv_lane_state. */
void kv_leaves_state(kv_leaves *l, int lanes, const kv_digest *state);
/* out[n_heads][d_v + 1]. */
void kv_leaves_output(kv_leaves *l, const kv_shape *shape, const float *out);
/* What was shown since the last step ended, if there is anything. */
void kv_leaves_scores(kv_leaves *l, kv_shows *shows, int step);
kv_layer_digests kv_leaves_end(kv_leaves *l);

#endif
