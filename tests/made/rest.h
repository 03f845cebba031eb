/* SPDX-License-Identifier: Apache-2.0
 *
 * A method with a chunk of its own: the newest REST_STAYS entries stay, and of
 * the tokens that went it keeps the sum of their values, as though the logit of
 * each were 0. So its chunk is m = 0, l = their number, a = the sum, and what
 * it puts out is one softmax over all tokens, which a test can write down.
 * Worked case: one token stays with logit 0 and value 5, tokens of values 1 and
 * 3 have gone: (5 + 1 + 3) / 3 = 3, LSE = ln 3. On the executor it has a twin,
 * tests/made/rest_twin.cc.
 */
#ifndef KV_TESTS_REST_H
#define KV_TESTS_REST_H

#include "ref/lane/method.h"

enum { REST_STAYS = 12 };

/* In the lane's state: how many went, and d_v sums, chains in order of age. */
typedef struct rest_state {
  float n, sum[];
} rest_state;

extern const kv_method rest_method;

#endif
