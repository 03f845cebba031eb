/* SPDX-License-Identifier: Apache-2.0
 *
 * The three digest trees of a layer in flight (journal.h), as every backend
 * grows them: a leaf of records and, where due, of states and outputs a step.
 */
#ifndef KV_REF_LEAVES_H
#define KV_REF_LEAVES_H

#include "ref/backend.h"

typedef struct kv_leaves {
  kv_tree journal, states, outputs;
} kv_leaves;

void kv_leaves_begin(kv_leaves *l);
/* The step's records of all lanes, views first; the lanes' words are empty
 * afterwards. */
void kv_leaves_records(kv_leaves *l, int lanes, kv_lane *lane);
/* state[lanes] of kv_lane_state. */
void kv_leaves_state(kv_leaves *l, int lanes, const kv_digest *state);
/* out[n_heads][d_v + 1]. */
void kv_leaves_output(kv_leaves *l, const kv_shape *shape, const float *out);
kv_layer_digests kv_leaves_end(kv_leaves *l);

#endif
