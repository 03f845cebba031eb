/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiers of a cascade: what a poll's votes (votes.h) do to a lane. Its last
 * entries are dense. Older entries may get the class HIDDEN: attention does not
 * read them. If there are more than `upper` entries, the lane is rewritten, and
 * the remaining entries are condensed.
 *
 *   chosen   = entries with a vote, the first `sinks` tokens, the `last` ones
 *   n <= upper: the others become hidden
 *   n >  upper: the others go. If more than upper are chosen, unprotected ones
 *               are cut: the fewest votes first, then the smallest mean
 *               probability, then the oldest. With merge, entries of the poll
 *               that go are merged into unprotected ones of it that stay
 *
 * as_shipped, what Hard-KV's code does: the poll covers all entries, and hidden
 * ones may be read again; sinks and last ones are counted by place; if n >
 * upper, the first `upper` entries of this order stay: sinks, the last ones
 * from the newest on, entries with a vote, the rest.
 */
#ifndef KV_REF_PARTS_CASCADE_H
#define KV_REF_PARTS_CASCADE_H

#include "ref/parts/parts.h"
#include "ref/parts/votes.h"

/* --- merging pair by pair ------------------------------------------------- */

/* Merges entries that would go into entries that stay, pair by pair (Hard-KV,
 * Appendix G): the largest with the smallest.
 *
 *   a_x     the weight of entry x, in place of e^(q k_x) of one query
 *   stays   in falling order of a; goes in rising order; of equals the lower
 *           entry first
 *   the i-th that goes is merged into the (i mod stays)-th that stays:
 *     x^ = (a_j x_j + a_k x_k) / (a_j + a_k) of K and V, arithmetic 8
 *     a_j = RN(a_j + a_k), for the next merge into it
 *   an entry with a = 0 goes without a trace; if nothing stays, all do
 *
 * The paper pairs as many that go with as many of the largest, and does not
 * define more: the ring is ours. For one query, with a the exponentials of its
 * logits, the merged logit is the mean of both. So the pair's log of summed
 * exponentials loses the entropy of its probabilities, which is never less than
 * 0 (Theorem G.1), and never less than dropping the smaller one loses. */

/* Merges entries goes[0..m) into stays[0..n), both ascending entry indexes, by
 * their weights a[entry] >= 0; returns how many were merged. The others of
 * `goes` are unchanged; the caller drops them. Reorders both lists and changes
 * a; spare: scratch for max(m, n) indexes. A merge may set the lane's fault. */
int kv_condense(kv_lane *lane, int n, int32_t *stays, int m, int32_t *goes,
                float *a, int32_t *spare);

/* Classes of entries; needs.classes. */
enum { KV_CASCADE_READ, KV_CASCADE_HIDDEN, KV_CASCADE_CLASSES };

/* Options of a method with such tiers, in its params. */
typedef struct kv_cascade {
  int upper;             /* most entries of a lane after a compression */
  int sinks, last;       /* first and last tokens, always read */
  int merge, as_shipped; /* flags, as above */
} kv_cascade;

/* Does an entry stay, whatever the votes? place: its index among the lane's n;
 * token: its id; step: tokens seen. */
KV_FN bool kv_cascade_protects(const kv_cascade *c, int step, int n, int place,
                               int token) {
  if (c->as_shipped) return place < c->sinks || place >= n - c->last;
  return token < c->sinks || token >= step - c->last;
}

/* The hook view: appends the entries of class READ to out. */
void kv_cascade_view(const kv_at *at, const kv_lane *lane, kv_view *out);
/* Writes the indexes of the entries that a poll must cover, ascending, into
 * entry[lane->n]; returns how many. Call it before kv_poll_ask. */
int kv_cascade_asked(const kv_cascade *c, const kv_lane *lane, int32_t *entry);
/* In compress_lane, after kv_poll_ask about those entries: hides, reads again,
 * drops or merges by the votes. With merge, p has shares (kv_voters.shares).
 * Overwrites the rows of p; uses a few [n] arrays of the workspace. */
void kv_cascade_compress(const kv_at *at, kv_lane *lane, const kv_cascade *c,
                         const kv_poll *p);

#endif
