/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV once more, in binary64 and plain loops, written from the paper's
 * definition and from what is known of the authors' code, for the test of the
 * method `hardkv` to compare with: one lane, n^2 where the method is fast.
 *
 *   a zeroed hard_store; hard_enter for each token, hard_compress after the
 *   steps at which the method compresses
 */
#ifndef KV_TESTS_HARD_ACCOUNT_H
#define KV_TESTS_HARD_ACCOUNT_H

#include "tests/support/rig.h"

enum { HARD_MOST = 128, HARD_WIDEST = 8 }; /* entries, d: at most */

/* The method's parameters, as its own names say (ref/methods/hardkv.h). */
typedef struct hard_rule {
  int upper;           /* entries that stay, at most */
  int lower;           /* no compression up to so many entries */
  int every;           /* steps between compressions, which the caller counts */
  int window;          /* newest queries that vote */
  int sinks;           /* first tokens, which always stay */
  int local;           /* newest entries, which stay if `shipped` */
  int kernel;          /* width of the max pooling */
  double p;            /* mass that a query's votes reach */
  bool pooled;         /* scores are pooled; */
  bool rkv;            /* or are those of R-KV */
  bool bisect;         /* temperature by bisection, else fixed */
  bool merges;         /* what goes is merged into what stays */
  bool shipped;        /* the authors' code, else the paper */
  bool read;           /* only entries that were read count for R-KV's score */
  double t[HARD_MOST]; /* temperature of query t at [t % window]; 0: not yet */
} hard_rule;

typedef struct hard_entry {
  int id;    /* token */
  bool read; /* it was chosen by the last compression, or entered since */
  double key[HARD_WIDEST];
} hard_entry;

/* A lane's entries, in its order. */
typedef struct hard_store {
  int n;
  hard_entry of[HARD_MOST];
} hard_store;

/* Token `token` of the case enters as the last entry. */
void hard_enter(const rig_case *c, hard_store *s, int token);
/* A compression after `step` tokens were seen: changes s, and o->t. */
void hard_compress(const rig_case *c, hard_rule *o, int step, hard_store *s);

#endif
