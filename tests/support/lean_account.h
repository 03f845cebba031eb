/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain account of LeanKV, for its test: who is in which tier after every
 * step, in binary64, written from the words of the paper and of the authors'
 * code, and sharing nothing with the method but the keys that it stores.
 */
#ifndef KV_TESTS_LEAN_ACCOUNT_H
#define KV_TESTS_LEAN_ACCOUNT_H

#include "tests/support/rig.h"

enum { ACCOUNT_HIGH, ACCOUNT_LOW, ACCOUNT_GONE };
enum { ACCOUNT_MOST = 64 }; /* tokens */

/* One KV head; queries: the last of the prompt that count, 0: all. */
typedef struct lean_account {
  const rig_case *c;
  bool code, one_tier;
  int window, queries;
  double alpha_h, alpha_l;
  double sum[ACCOUNT_MOST]; /* by token */
  int tier[ACCOUNT_MOST], count[ACCOUNT_MOST];
} lean_account;

/* The prompt is seen and sorted into tiers. */
void account_prompt(lean_account *a);
/* Ids and keys of a lane as its next step will read them; returns how many. */
int account_keys(const kv_lane *l, uint32_t *id, float *key);
/* Row n - 1 gives to those `held` entries and to its own token. */
void account_step(lean_account *a, int n, int held, const uint32_t *id,
                  const float *key);
/* One decision, n tokens seen. */
void account_judge(lean_account *a, int n);

#endif
