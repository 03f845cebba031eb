/* SPDX-License-Identifier: Apache-2.0
 *
 * A method made up for tests of messages between layers (KV_DOWN). Layers 0, 3,
 * 6 .. are sieves: they keep and attend every token, and publish for each KV
 * head the SIEVE_PICKS tokens of largest logit in the step's row, of any query
 * head of the group (of equal ones the older). The two layers below a sieve
 * attend those tokens and the newest, at the same step; at the end of the
 * prompt they keep those and the newest SIEVE_STAYS. Its twin on the executor
 * is tests/made/sieve_twin.cc.
 */
#ifndef KV_TESTS_SIEVE_H
#define KV_TESTS_SIEVE_H

#include "ref/lane/method.h"

enum {
  SIEVE_PICKS = 6,
  SIEVE_STAYS = 8,
  SIEVE_PERIOD = 3
}; /* tokens, layers */

/* The picks of one KV head: a lane's state, and part of the message. */
typedef struct sieve_picks {
  int32_t n;                /* how many */
  uint32_t id[SIEVE_PICKS]; /* tokens, ascending */
} sieve_picks;

/* What a sieve publishes. */
typedef struct sieve_message {
  int32_t step;     /* tokens seen */
  int32_t lanes;    /* KV heads */
  sieve_picks of[]; /* [lanes] */
} sieve_message;

/* Is the layer of that number a sieve? */
#define sieve_is(layer) ((layer) % SIEVE_PERIOD == 0)

/* The method, "sieve"; no parameters, no budget. */
extern const kv_method sieve_method;

#endif
