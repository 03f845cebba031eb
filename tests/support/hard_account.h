/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain account of Hard-KV in binary64, written from the definition and from
 * what is known of the authors' code: one lane, all loops as they are said.
 */
#ifndef KV_TESTS_HARD_ACCOUNT_H
#define KV_TESTS_HARD_ACCOUNT_H

#include "tests/support/rig.h"

enum { HARD_MOST = 128, HARD_WIDEST = 8 };

typedef struct hard_rule {
  int upper, lower, every, window, sinks, local, kernel;
  double p;
  bool pooled, bisect, rkv, merges, shipped, read;
  double t[HARD_MOST]; /* by place of the ring */
} hard_rule;

/* Entries in the lane's order. */
typedef struct hard_entry {
  int id;
  bool read;
  double key[HARD_WIDEST];
} hard_entry;

typedef struct hard_store {
  int n;
  hard_entry of[HARD_MOST];
} hard_store;

/* Token `token` of the case enters. */
void hard_enter(const rig_case *c, hard_store *s, int token);
/* A compression when `step` tokens were seen; the rule keeps temperatures. */
void hard_compress(const rig_case *c, hard_rule *o, int step, hard_store *s);

#endif
