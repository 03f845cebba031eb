/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiers of a cascade: what a poll's votes (votes.h) make of a lane. Its
 * last entries are dense; of the older ones class HIDDEN says that attention
 * does not read them; where there are more than `upper` the lane is rewritten,
 * and what is left is condensed.
 *
 *   chosen   = what has a vote, the first `sinks` tokens and the `last` ones
 *   n <= upper: the others become hidden
 *   n >  upper: the others go; if more than upper are chosen, those that no
 *               rule protects are cut by votes, then the mean probability, then
 *               the younger one; with merge, what goes of the poll's entries is
 *               merged into what stays of them and no rule protects
 *
 * as_shipped, what Hard-KV's code does: the poll is about all entries, and what
 * was hidden may be read again; sinks and last ones are counted by place; where
 * n > upper the first upper stay, in this order, of: sinks, the last ones from
 * the newest on, what has a vote, the rest.
 */
#ifndef KV_REF_PARTS_CASCADE_H
#define KV_REF_PARTS_CASCADE_H

#include "ref/parts/votes.h"

/* Classes of entries; needs.classes. */
enum { KV_CASCADE_READ, KV_CASCADE_HIDDEN, KV_CASCADE_CLASSES };

/* Options of a method that has such tiers, in its params. */
typedef struct kv_cascade {
  int upper;             /* entries of a lane at most, after a compression */
  int sinks, last;       /* first and last tokens that always stay read */
  int merge, as_shipped; /* flags, as above */
} kv_cascade;

/* Does an entry stay, whatever the votes are? place: its index of the lane's n;
 * token: its id; step: tokens seen. */
KV_FN bool kv_cascade_protects(const kv_cascade *c, int step, int n, int place,
                               int token) {
  if (c->as_shipped) return place < c->sinks || place >= n - c->last;
  return token < c->sinks || token >= step - c->last;
}

/* The hook view: appends the entries of class READ to out. */
void kv_cascade_view(const kv_at *at, const kv_lane *lane, kv_view *out);
/* Writes the indexes of the entries that a poll is to ask about, ascending,
 * into entry, which has room for lane->n; returns how many. Call before
 * kv_poll_ask.
 */
int kv_cascade_asked(const kv_cascade *c, const kv_lane *lane, int32_t *entry);
/* In compress_lane, after kv_poll_ask about those entries: hides, reads again,
 * drops or merges as the votes say. With merge p has shares (kv_voters.shares).
 * Overwrites the rows of p; takes a few [n] arrays of the workspace. */
void kv_cascade_compress(const kv_at *at, kv_lane *lane, const kv_cascade *c,
                         const kv_poll *p);

#endif
