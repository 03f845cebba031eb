/* SPDX-License-Identifier: Apache-2.0
 *
 * A method made up for tests: it uses every verb on one lane, as no published
 * method does. At each compression a hash of layer, lane and step chooses one
 * of keep, merge, move, recode and retier, so that the store is tested where
 * verbs meet: coded groups that lose members, merged rows among coded ones,
 * columns that travel, heads that see different entries. No parameters, no
 * budget. Its twin on the executor is tests/made/mad_twin.cc.
 */
#ifndef KV_TESTS_MAD_H
#define KV_TESTS_MAD_H

#include "ref/ground/formula.h"
#include "ref/lane/method.h"

enum {
  MAD_CODED = 4,  /* entries that are coded together */
  MAD_CLASSES = 3 /* classes of retier */
};

/* The method, "mad". */
extern const kv_method mad_method;

/* Is entry i of its lane in the view of a query head of the layer at that step:
 * about three of four entries, and at every fifth step all. For method and
 * twin. */
static inline bool mad_sees(int head, int step, int i) {
  uint64_t x = (uint64_t)(head * 4096 + step) * 4096 + (uint64_t)i;
  return step % 5 == 0 || kv_mix(x) % 4 != 0;
}

#endif
