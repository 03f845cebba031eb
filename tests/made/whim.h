/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods made up for tests. Their needs (kv_needs) are drawn at random from
 * their one parameter `seed`, among valid combinations, because published
 * methods use few of these. A hook hashes its whole input into its own numbers
 * (state of the lane, columns), and views and verbs follow from those, so that
 * a wrong, missing or misplaced value changes a digest. Hashes are added up, so
 * that the sizes of a backend's tiles do not matter.
 *
 * "whim" has every hook but chunk; "whim-plain" also lacks arrive, view,
 * compress_layer and publish. Both have twins on the executor
 * (tests/made/whim_twin.cc), which also use the formulas below.
 */
#ifndef KV_TESTS_WHIM_H
#define KV_TESTS_WHIM_H

#include "ref/ground/formula.h"
#include "ref/lane/method.h"

extern const kv_method whim_method, whim_plain_method;
/* The two by index, then NULL: for kv_spec_parse. */
const kv_method *whim_at(int index);

typedef struct whim_params {
  int seed;
} whim_params;

/* Their state of a lane, if the drawn needs ask for one. */
typedef struct whim_state {
  uint64_t fold;  /* sum of the hashes of all input */
  uint64_t shown; /* rows received, weighted by which pointers were NULL */
} whim_state;

/* The kind of a number in the input: `what` of the formulas. */
enum { WHIM_Q = 1, WHIM_S, WHIM_P, WHIM_SUM, WHIM_ROW, WHIM_VIEW, WHIM_GROUP };

/* A hash of a place: element i of row t of a query head of the layer. */
KV_FN uint64_t whim_at_place(int what, int t, int head, int i) {
  return kv_mix((uint64_t)what << 56 ^ (uint64_t)t << 32 ^
                (uint64_t)head << 22 ^ (uint64_t)i);
}

/* The contribution of a number of these bits at that place to the fold. */
KV_FN uint64_t whim_share(int what, int t, int head, int i, uint32_t bits) {
  return kv_mix(whim_at_place(what, t, head, i) + bits);
}

/* The contribution of a sum over rows: the same whole or in parts. */
KV_FN uint64_t whim_of_sum(int head, int i, int64_t sum) {
  return (uint64_t)sum * (whim_at_place(WHIM_SUM, 0, head, i) | 1);
}

/* The hash that a view, compression or publication decides by; for a whole
 * layer, `lane` is a number that no lane has. */
KV_FN uint64_t whim_hash(int seed, int layer, int lane, int step,
                         uint64_t fold) {
  return kv_mix(kv_mix((uint64_t)seed * 4096 + (uint64_t)(layer * 64 + lane)) +
                (uint64_t)step * 0x10001 + fold);
}

/* Does entry i, whose column holds `column`, stay? Seven of eight do. */
KV_FN int whim_stays(uint64_t hash, int i, uint64_t column) {
  return kv_mix(hash + (uint64_t)i + column * 31) % 8 != 0;
}

/* Is entry i, whose logit has these bits, in the view? True for 3 of 4. */
KV_FN int whim_in_view(uint64_t hash, int i, uint32_t bits) {
  return kv_mix(hash + (uint64_t)i * 0x100000001u + bits) % 4 != 0;
}

#endif
