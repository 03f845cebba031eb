/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of queries: those of the last `window` tokens, for all query heads of
 * a KV head's lane, for methods that use them later than they are shown. A
 * token's queries are at index token mod window: [window][heads][d] floats, in
 * the lane's own state.
 */
#ifndef KV_REF_PARTS_RING_H
#define KV_REF_PARTS_RING_H

#include "ref/ground/arith.h"
#include "ref/lane/lane.h"

/* Floats of a ring, for needs.lane_state. */
KV_FN size_t kv_ring_floats(const kv_shape *s, int window) {
  return (size_t)window * (size_t)(s->n_heads / s->n_kv_heads) * (size_t)s->d;
}

/* The row of needs.meta for a ring: its queries in the trace's type. */
kv_meta kv_ring_meta(const kv_shape *s, int window);

/* The token whose queries are at index `at`, 0 .. window - 1, when `step`
 * tokens were seen: the last one that is `at` mod window; -1: none yet. */
KV_FN int kv_ring_token(int window, int step, int at) {
  int back = step - 1 - at;
  return back < 0 ? -1 : step - 1 - back % window;
}

/* In observe, for a method that wants KV_Q: copies the rows' queries to
 * ring[window][lane->queries][d]. */
void kv_ring_add(const kv_at *at, const kv_lane *lane, const kv_rows *rows,
                 int window, float *ring);

#endif
