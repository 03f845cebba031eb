/* SPDX-License-Identifier: Apache-2.0
 *
 * A method whose layers publish messages for those below them (KV_DOWN). Layers
 * 0, 3, 6 .. are sieves: they keep and attend every token, and publish for each
 * KV head the SIEVE_PICKS tokens of largest logit in the step's row, of any
 * query head of the group (of equal ones the older). The two layers below a
 * sieve attend those tokens and the newest, at the same step; where the prompt
 * ends they keep those and the newest SIEVE_STAYS. Its twin on the executor is
 * tests/made/sieve_twin.cc.
 */
#ifndef KV_TESTS_SIEVE_H
#define KV_TESTS_SIEVE_H

#include "ref/lane/method.h"

enum { SIEVE_PICKS = 6, SIEVE_STAYS = 8, SIEVE_PERIOD = 3 };

/* In the lane's state, and in the message for each KV head; ids ascend. */
typedef struct sieve_picks {
  int32_t n;
  uint32_t id[SIEVE_PICKS];
} sieve_picks;

typedef struct sieve_message {
  int32_t step, lanes;
  sieve_picks of[];
} sieve_message;

/* Is layer `layer` a sieve? */
#define sieve_is(layer) ((layer) % SIEVE_PERIOD == 0)

extern const kv_method sieve_method;

#endif
