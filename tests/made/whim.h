/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods whose needs are drawn at random, within what is legal, from their
 * one parameter `seed`: no combination of needs is tried by the methods of
 * papers alone. A hook folds everything that it is shown into numbers of its
 * own (lane_state, columns), and views and verbs follow from those, so that a
 * value that is wrong, missing or not where it was asked for moves a digest.
 * Folds are sums, so that the sizes of a backend's tiles do not matter.
 *
 * "whim" has every hook but chunk, "whim-plain" neither arrive, view,
 * compress_layer nor publish.
 * Both have twins (tests/made/whim_twin.cc), which call the formulas below.
 */
#ifndef KV_TESTS_WHIM_H
#define KV_TESTS_WHIM_H

#include "ref/ground/formula.h"
#include "ref/lane/method.h"

extern const kv_method whim_method, whim_plain_method;
/* Both, then NULL: for kv_spec_parse. */
const kv_method *whim_at(int index);

typedef struct whim_params {
  int seed;
} whim_params;

/* In lane_state, where the needs ask for any. */
typedef struct whim_state {
  uint64_t fold;  /* of all that was shown */
  uint64_t shown; /* rows, heads and pointers that were there */
} whim_state;

/* What a number was shown as. */
enum { WHIM_Q = 1, WHIM_S, WHIM_P, WHIM_SUM, WHIM_ROW, WHIM_VIEW, WHIM_GROUP };

/* Of element i that query head `head` of the layer is shown by row t. */
KV_FN uint64_t whim_at_place(int what, int t, int head, int i) {
  return kv_mix((uint64_t)what << 56 ^ (uint64_t)t << 32 ^
                (uint64_t)head << 22 ^ (uint64_t)i);
}

/* What that element adds to a fold. */
KV_FN uint64_t whim_share(int what, int t, int head, int i, uint32_t bits) {
  return kv_mix(whim_at_place(what, t, head, i) + bits);
}

/* What a sum over rows adds: as much as the sums of parts of the rows. */
KV_FN uint64_t whim_of_sum(int head, int i, int64_t sum) {
  return (uint64_t)sum * (whim_at_place(WHIM_SUM, 0, head, i) | 1);
}

/* The hash that a compression of the lane decides by. */
KV_FN uint64_t whim_hash(int seed, int layer, int lane, int step,
                         uint64_t fold) {
  return kv_mix(kv_mix((uint64_t)seed * 4096 + (uint64_t)(layer * 64 + lane)) +
                (uint64_t)step * 0x10001 + fold);
}

/* Does entry i stay, that holds `column`? */
KV_FN int whim_stays(uint64_t hash, int i, uint64_t column) {
  return kv_mix(hash + (uint64_t)i + column * 31) % 8 != 0;
}

/* Does entry i stand in the view, with these bits of its logit? */
KV_FN int whim_in_view(uint64_t hash, int i, uint32_t bits) {
  return kv_mix(hash + (uint64_t)i * 0x100000001u + bits) % 4 != 0;
}

#endif
