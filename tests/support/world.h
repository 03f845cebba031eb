/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer with one lane, for tests of the measures (sim/replay/measure):
 * random binary32 data, verbs that change the lane at random, views of any
 * shape, the exact row of attention (truth) and the state of the measures. Any
 * failure fails the running test.
 *
 *   open; for each token: kv_lane_append, perhaps verbs, then see, then attend;
 *   close
 */
#ifndef KV_TESTS_WORLD_H
#define KV_TESTS_WORLD_H

#include "sim/replay/measure/fidelity.h"
#include "tests/support/test.h"

enum {
  T = 48,      /* tokens */
  P = 30,      /* of the prompt */
  D = 16,      /* elements of a key */
  DV = 12,     /* of a value */
  MOST = 8,    /* query heads, at most */
  BUDGET = 40, /* in entries */
  ANSWERS = 5  /* needles */
};

typedef struct world {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  float *q, *k, *v; /* [n_heads][T][D], [n_kv_heads][T][D], [..][T][DV] */
  const kv_kernels *kernels;
  kv_lane lane;
  int rep[T];       /* oldest token that a token was merged with */
  kv_truth *truth;  /* the current exact row */
  kv_fidelity *fid; /* the measures */
  kv_attend_scratch attend;
  kv_view view[MOST];  /* of each query head of the lane's KV head, */
  kv_run run[MOST][T]; /* and their runs */
  /* Of the current token, by query head: logits, output, log-sum-exp. */
  float s[MOST * T], out[MOST * DV], lse[MOST];
} world;

/* Needles that the measures look for. */
extern const kv_needle world_answer[ANSWERS];

/* Makes layer 3 with `kv` KV heads of `group` query heads each, and lane number
 * `lane` of it. lanes: is a lane a KV head's or a query head's? merges: the
 * lane may be merged (world_merge); else it may be coded (world_code). */
void world_open(world *w, int kv, int group, kv_lanes lanes, int lane,
                bool merges);
void world_close(world *w);

/* Sets the views of the next row: all entries, or runs drawn at random. */
void world_see_all(world *w);
void world_see_some(world *w);
/* Computes the exact row of token t and the attention over the views, with junk
 * in the logits outside of them; returns the input of the measures. */
kv_seen world_attend(world *w, int t);

/* One verb on entries drawn at random: keep, merge (and sweep; nothing if the
 * lane holds less than three), move, recode. */
void world_drop(world *w);
void world_merge(world *w);
void world_move(world *w);
void world_code(world *w);

/* The logit of row t of query head h against a token's key of KV head g. */
float world_logit(const world *w, int h, int g, int t, int token);

/* A number from 0 to n - 1, drawn. */
int world_below(int n);

#endif
