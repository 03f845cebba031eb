/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane as the journal tells it: an interpreter of records that was written
 * from the words of ref/journal.h alone and shares no code with the verbs.
 * What it arrives at must be what the lane holds; and what a real store would
 * cost follows from it, whatever the lane's own books say.
 */
#ifndef KV_SIM_LAW_SHADOW_H
#define KV_SIM_LAW_SHADOW_H

#include "ref/lane.h"

enum { KV_SHADOW_GONE = -1 };

typedef struct kv_shadow_entry {
  uint32_t id, weight;
  int k, v;             /* formats */
  int k_group, v_group; /* which recode call made them; -1: none */
} kv_shadow_entry;

typedef struct kv_shadow {
  int step, n;
  kv_shadow_entry *entry; /* [n_tokens] */
  kv_shadow_entry *spare; /* [n_tokens] */
  int32_t *owner; /* [n_tokens] id of the entry that a token is part of */
  int groups, room;
  int *members;    /* [groups] entries that a recode call coded together */
  int64_t dropped; /* tokens that went with dropped entries */
  bool lost;       /* anything was ever dropped or merged */
  bool gaps;       /* rows once were not 0..n-1 in lane order */
  size_t read;     /* words of the step in progress that were interpreted */
} kv_shadow;

kv_rc kv_shadow_open(int n_tokens, kv_shadow *s, kv_err *e);
void kv_shadow_close(kv_shadow *s); /* accepts zeroed */
void kv_shadow_begin(kv_shadow *s); /* an empty lane */

/* Tokens up to the lane's step enter; then the records that the lane has
 * written since the last call. KV_DIFFERENT where a record makes no sense. */
kv_rc kv_shadow_follow(kv_shadow *s, const kv_lane *l, kv_err *e);

#endif
