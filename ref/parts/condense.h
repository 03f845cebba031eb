/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging what would go into what stays, pair by pair (Hard-KV, Appendix G):
 * the largest with the smallest.
 *
 *   a_x     the weight of entry x, in place of e^(q k_x) of one query
 *   stays   in falling order of a, goes in rising order; of equals the lower
 *           entry first
 *   the i-th that goes is merged into the (i mod stays)-th that stays:
 *     x^ = (a_j x_j + a_k x_k) / (a_j + a_k) of K and V, arithmetic 8
 *     a_j = RN(a_j + a_k), for whoever is merged into it next
 *   whose a is 0 goes without a trace; where nobody stays, all do
 *
 * The paper pairs as many as go with as many of the largest, and says nothing
 * of more: the ring is ours. Of one query and a the exponentials of its logits
 * the merged logit is the mean of both, so what the pair's log of summed
 * exponentials loses is the entropy of its probabilities, never less than 0
 * (Theorem G.1) - and never less than what dropping the smaller one loses.
 */
#ifndef KV_REF_PARTS_CONDENSE_H
#define KV_REF_PARTS_CONDENSE_H

#include "ref/parts/parts.h"

/* Merges entries goes[0..m) into stays[0..n), both ascending entry indexes, by
 * their weights a[entry] >= 0, and returns how many were merged; the others of
 * `goes` are as they were, and the caller drops them. Reorders both lists and
 * changes a; spare: room for max(m, n) indexes. Cannot fail; a merge may set
 * the lane's fault. */
int kv_condense(kv_lane *lane, int n, int32_t *stays, int m, int32_t *goes,
                float *a, int32_t *spare);

#endif
