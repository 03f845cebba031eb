/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the verbs (verbs.c, verbs_recode.c): what each of them is made of.
 */
#ifndef KV_REF_VERBS_PART_H
#define KV_REF_VERBS_PART_H

#include "ref/lane/lane.h"

/* Room for a record of the step; NULL where there is none, and the lane's fault
 * says so. */
uint32_t *kv_verb_record(kv_lane *l, kv_record kind, size_t count);
/* Entries from i on are no longer what they were. */
void kv_verb_touch(kv_lane *l, int i);
/* A block for so many members; the side r of an entry leaves its own. */
int kv_verb_take(kv_slab *s, int members);
void kv_verb_leave(kv_slab *slab, kv_cell_ref *r);
bool kv_verb_is_rewritten(const kv_lane *l, int i);
/* R <- H(R || id || K bits || V bits) of entry i. Returns K, and behind it V,
 * until the next verb. */
const float *kv_verb_note(kv_lane *l, int i);

#endif
