/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV once more, for the test of the method `leankv` to compare with: which
 * token is in which tier after every step, in binary64 and plain loops, written
 * from the paper and from the authors' code. It shares nothing with the method
 * but the keys that that one stores.
 *
 *   account_prompt; at each step account_step, then account_judge
 */
#ifndef KV_TESTS_LEAN_ACCOUNT_H
#define KV_TESTS_LEAN_ACCOUNT_H

#include "tests/support/rig.h"

enum { ACCOUNT_TIERS = 4, ACCOUNT_GONE = ACCOUNT_TIERS }; /* 0: the high one */
enum { ACCOUNT_MOST = 64 };                               /* tokens */

/* One KV head. The caller sets the fields up to alpha and zeroes the rest. */
typedef struct lean_account {
  const rig_case *c;
  bool code;                   /* as the authors' code, else as the paper */
  int tiers;                   /* that there are */
  int window;                  /* newest tokens, which stay high */
  int queries;                 /* last rows of the prompt that count; 0: all */
  double alpha[ACCOUNT_TIERS]; /* of each tier, weights of the head included */
  /* By token: */
  double sum[ACCOUNT_MOST]; /* attention that it got */
  int tier[ACCOUNT_MOST];
  int count[ACCOUNT_MOST]; /* rows that gave to it */
} lean_account;

/* The prompt is seen, and its tokens are sorted into tiers. */
void account_prompt(lean_account *a);
/* Writes ids [n] and keys [n][d] of a lane's entries, as its next step will
 * read them; returns n. */
int account_keys(const kv_lane *l, uint32_t *id, float *key);
/* The row of token n - 1 adds its attention to `held` entries, of these ids and
 * keys, and with `code` to its own token. */
void account_step(lean_account *a, int n, int held, const uint32_t *id,
                  const float *key);
/* One decision about tiers, after n tokens. */
void account_judge(lean_account *a, int n);

/* Replays the method, whose tiers are k16v16, k16v8, k8v8 and k4v4, and fails
 * unless its lane is as the account has it after every step; adds to moved
 * [ACCOUNT_TIERS + 1] the tokens that were in each tier, step by step. */
void account_follow(lean_account a, const char *spec, int *moved);

/* A file of what heads' alphas are multiplied by, weight[layers][heads][tiers].
 * The caller sets the weights, account_weigh the rest. */
typedef struct account_weights {
  float weight[2 * ACCOUNT_TIERS];
  int layer[2];
  kv_tensor tensor[2];
  kv_asset asset;
} account_weights;
void account_weigh(account_weights *w, int layers, int heads, int tiers);

#endif
