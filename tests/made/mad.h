/* SPDX-License-Identifier: Apache-2.0
 *
 * A method that does everything. No published one uses all verbs on one lane;
 * this one keeps, merges, moves, reorders, codes and gives classes, one of them
 * a compression, as a hash of layer, lane and step says, so that the store's
 * books are looked at where verbs meet: coded groups that lose members, merged
 * rows among coded ones, columns that travel, heads that see different entries,
 * coded ones among them. Without parameters or budget. On the executor it has a
 * twin, tests/made/mad_twin.cc.
 */
#ifndef KV_TESTS_MAD_H
#define KV_TESTS_MAD_H

#include "ref/ground/formula.h"
#include "ref/lane/method.h"

enum { MAD_CODED = 4, MAD_CLASSES = 3 }; /* entries that are coded together */

extern const kv_method mad_method;

/* Does the query head of the layer see entry i of its lane at that step? Three
 * of four entries, and at every fifth step all of them. */
static inline bool mad_sees(int head, int step, int i) {
  uint64_t x = (uint64_t)(head * 4096 + step) * 4096 + (uint64_t)i;
  return step % 5 == 0 || kv_mix(x) % 4 != 0;
}

#endif
