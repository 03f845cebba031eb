/* SPDX-License-Identifier: Apache-2.0
 *
 * A small world for the tests of fidelity and cost: one layer of full-mantissa
 * data, one lane that verbs change at random, views of any shape, the exact
 * row and a place for the measures. What goes wrong fails the running test.
 */
#ifndef KV_TESTS_WORLD_H
#define KV_TESTS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/measure/fidelity.h"

enum { T = 48, P = 30, D = 16, DV = 12, MOST = 8, BUDGET = 40 };

/* A world of one layer, KV heads `kv` with `group` query heads each. */
typedef struct world {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  float *q, *k, *v;
  const kv_kernels *kernels;
  kv_lane lane;
  int rep[T]; /* oldest token that a token was merged with */
  kv_truth *truth;
  kv_fidelity *fid;
  kv_attend_scratch attend;
  kv_view view[MOST];
  kv_run run[MOST][T];
  float qq[MOST * D], s[MOST * T], out[MOST * DV], lse[MOST];
} world;

/* The layer's number is 3, the budget BUDGET, the needles world_answer. A
 * lane of a method that merges carries a bias; others may be coded. */
enum { ANSWERS = 5 };
extern const kv_needle world_answer[ANSWERS];
void world_open(world *w, int kv, int group, kv_lanes lanes, int lane,
                bool merges);
void world_close(world *w);

/* Views for the row that comes. */
void world_see_all(world *w);
void world_see_some(world *w);
/* Fills the truth of token t and attends; junk stands outside the views. */
kv_seen world_attend(world *w, int t);

/* Verbs on entries drawn at random. */
void world_drop(world *w);
void world_merge(world *w);
void world_move(world *w);
void world_code(world *w);

/* Of query head h and KV head g: row t against a token, one chain of fma. */
float world_logit(const world *w, int h, int g, int t, int token);

int world_below(int n); /* a draw from 0..n-1 */

#endif
