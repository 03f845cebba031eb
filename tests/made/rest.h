/* SPDX-License-Identifier: Apache-2.0
 *
 * A method made up for tests of hooks that add a chunk of their own to
 * attention (kv_method.chunk): the newest REST_STAYS entries stay, and of
 * dropped tokens it keeps the sum of their values, as if the logit of each were
 * 0. Its chunk is m = 0 (largest logit), l = their number (sum of
 * exponentials), a = the sum (weighted values), so that its output is one
 * softmax over all tokens. Worked case: one token stays with logit 0 and value
 * 5, tokens of values 1 and 3 were dropped: (5 + 1 + 3) / 3 = 3, LSE = ln 3.
 * Its twin on the executor is tests/made/rest_twin.cc.
 */
#ifndef KV_TESTS_REST_H
#define KV_TESTS_REST_H

#include "ref/lane/method.h"

enum { REST_STAYS = 12 }; /* entries */

/* Its state of a lane: how many tokens were dropped, and the sum of their
 * values [d_v], added in order of age. */
typedef struct rest_state {
  float n, sum[];
} rest_state;

/* The method, "rest"; no parameters, no budget. */
extern const kv_method rest_method;

#endif
