/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the verbs (verbs.c, verbs_recode.c): the steps that each of them
 * takes on one lane, its records, its blocks and its digest. Called by the
 * thread that works on the lane, between the begin and the end of one verb;
 * none allocates.
 */
#ifndef KV_REF_VERBS_PART_H
#define KV_REF_VERBS_PART_H

#include "ref/lane/lane.h"

/* Appends a record of this kind to the verbs of the lane's current step and
 * returns its `count` words, to be filled. NULL: the step has named entries
 * more often than needs.changes allows; the lane's fault is then set, and the
 * verb must return without changing anything. */
uint32_t *kv_verb_record(kv_lane *l, kv_record kind, size_t count);
/* Notes that entries from index i on have changed or moved, so that what was
 * derived from them (l->touched is the lowest such index) is made again. */
void kv_verb_touch(kv_lane *l, int i);
/* Takes a free block of slab s for `members` rows, charges its bytes and
 * returns its index. A slab always has one (asserted: it has room for every
 * token). */
int kv_verb_take(kv_slab *s, int members);
/* Removes one side of an entry, K or V, from its block in slab[r->format]; the
 * block is free, and its bytes no longer charged, when its last live member has
 * left. *r becomes KV_RAW; does nothing if it is. */
void kv_verb_leave(kv_slab *slab, kv_cell_ref *r);
/* True if K or V of entry i is stored as codes or as a mean, not as it came. */
bool kv_verb_is_rewritten(const kv_lane *l, int i);
/* Adds entry i, as it is stored now, to the lane's digest of rewrites:
 * R <- SHA-256(R || id || K || V), both decoded to fp32. Returns the d floats
 * of K with the d_v of V behind them, valid until the next verb of the lane. */
const float *kv_verb_note(kv_lane *l, int i);

#endif
