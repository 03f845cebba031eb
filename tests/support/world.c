/* SPDX-License-Identifier: Apache-2.0
 *
 * The small world of tests/support/world.h: data, views and verbs, all from one
 * seed that each world starts anew.
 */
#include "tests/support/world.h"
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include <stdlib.h>
#include <string.h>

static uint32_t state = 1;
static uint32_t draw(void) { return state = state * 1664525u + 1013904223u; }
int world_below(int n) { return (int)((draw() >> 8) % (uint32_t)n); }
static float full(void) {
  int u = world_below(1 << 24) - (1 << 23);
  return (float)u * 0x1p-22f;
}

static float *floats(size_t n) {
  float *x = malloc(n * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = full();
  return x;
}

static void good(kv_rc rc) { assert_int_equal(rc, KV_OK); }

const kv_needle world_answer[ANSWERS] = {
    {P + 3, P + 7, 4, 8},   /* rows P+2 .. P+5 */
    {P - 1, P + 2, 10, 13}, /* row P-2, P-1 are the prompt's */
    {5, 9, 1, 5},           /* wholly in the prompt */
    {T - 1, T + 4, 20, 25}, /* rows T-2, T-1; the rest is not recorded */
    {P + 4, P + 9, 12, 17}, /* rows P+3 .. P+7; the first three are taken */
};

void world_open(world *w, int kv, int group, kv_lanes lanes, int lane,
                bool merges) {
  static const int layer[] = {3};
  static const int budget[] = {BUDGET, 16, 200};
  static const kv_minmax settings = {2, 8, 0};
  *w = (world){
      .shape = {4, kv * group, kv, D, DV, T, P, 0, KV_F32, 0.25f, 0, 0, NULL},
      .needs = {.merges = merges,
                .lanes = lanes,
                .merge_bias = merges ? 1.0f : 0},
      .kernels = kv_kernels_best()};
  if (!merges) {
    w->needs.codings = 1;
    w->needs.coding[0] =
        KV_CODING(&kv_format_token, &settings, false, KV_BOTH_SIDES);
  }
  w->q = floats((size_t)(kv * group * T * D));
  w->k = floats((size_t)(kv * T * D));
  w->v = floats((size_t)(kv * T * DV));
  w->data = (kv_layer_data){3,    w->q, w->k, w->v, KV_F32, T,
                            NULL, NULL, 0,    0,    NULL,   NULL};
  good(kv_lane_init(&w->lane, &w->shape, &w->needs, w->kernels, lane, NULL));
  good(kv_lane_room_init(&w->lane.room, T, NULL));
  kv_lane_begin(&w->lane, w->lane.needs, &w->data);
  for (int t = 0; t < T; t++) w->rep[t] = t;
  good(kv_truth_open(&w->shape, w->kernels, 1, 3, budget, &w->truth, NULL));
  good(kv_fidelity_open(&w->shape, 1, layer, &(int){BUDGET}, ANSWERS,
                        world_answer, &w->fid, NULL));
  kv_fidelity_layer_begin(w->fid, 0);
  good(kv_attend_scratch_init(&w->attend, D, DV, group, T, NULL));
  for (int h = 0; h < MOST; h++) w->view[h].run = w->run[h];
}

void world_close(world *w) {
  kv_lane_room_release(&w->lane.room);
  kv_lane_release(&w->lane);
  kv_truth_close(w->truth);
  kv_fidelity_close(w->fid);
  kv_attend_scratch_release(&w->attend);
  free(w->q);
  free(w->k);
  free(w->v);
}

/* --- the replay --------------------------------------------------------- */

kv_seen world_attend(world *w, int t) {
  const kv_lane *l = &w->lane;
  int group = kv_group(&w->shape);
  kv_truth_fill(w->truth, &w->data, l->kv_head, t, NULL);
  const float *q = w->truth->q + (l->first_head - l->kv_head * group) * D;
  kv_lane_logits(w->kernels, l, l->queries, q, D, 0, l->n, NULL, 0, w->s, T,
                 &w->attend);
  for (int h = 0; h < l->queries; h++) {
    float g[T];
    int n = 0;
    for (int r = 0; r < w->view[h].runs; r++)
      for (int i = 0; i < w->run[h][r].count; i++)
        g[n++] = w->s[h * T + w->run[h][r].first + i];
    kv_lane_values values = {.lane = l, .view = &w->view[h]};
    kv_attend_rows(w->kernels, 1, n, DV, g, T, kv_lane_value_rows, &values,
                   &w->attend, w->out + h * DV, w->lse + h);
    for (int i = 0, r = 0; i < l->n;
         i++) { /* in views only: the rest is junk */
      bool in = false;
      for (r = 0; r < w->view[h].runs; r++)
        in |= i >= w->run[h][r].first &&
              i < w->run[h][r].first + w->run[h][r].count;
      if (!in) w->s[h * T + i] = 1e30f;
    }
  }
  return (kv_seen){.lane = l,
                   .queries = l->queries,
                   .view = w->view,
                   .s = w->s,
                   .stride = T,
                   .out = w->out,
                   .lse = w->lse};
}

void world_see_all(world *w) {
  for (int h = 0; h < w->lane.queries; h++) {
    w->view[h].runs = w->view[h].entries = 0;
    kv_view_add(&w->view[h], 0, w->lane.n);
  }
}

void world_see_some(world *w) {
  for (int h = 0; h < w->lane.queries; h++) {
    kv_view *v = &w->view[h];
    int last = world_below(3) ? w->lane.n - 1 : world_below(w->lane.n);
    v->runs = v->entries = 0;
    for (int i = 0; i < w->lane.n; i++)
      if (i == last || world_below(3) == 0) kv_view_add(v, i, 1);
  }
}

void world_drop(world *w) {
  bool keep[T];
  for (int i = 0; i < w->lane.n; i++)
    keep[i] = i + 1 == w->lane.n || world_below(4) != 0;
  kv_keep_mask(&w->lane, keep);
}

void world_merge(world *w) {
  kv_lane *l = &w->lane;
  if (l->n < 3) return;
  int a = world_below(l->n), b = world_below(l->n - 1);
  b += b >= a;
  int ra = (int)l->id[a], rb = (int)l->id[b];
  kv_merge(l, a, b, 1.0f, 2.0f);
  kv_sweep(l);
  for (int t = 0; t < T; t++)
    if (w->rep[t] == ra || w->rep[t] == rb) w->rep[t] = ra < rb ? ra : rb;
}

void world_move(world *w) {
  kv_move(&w->lane, world_below(w->lane.n), world_below(w->lane.n));
}

void world_code(world *w) {
  int32_t e = world_below(w->lane.n);
  kv_recode(&w->lane, 1, &e, KV_CODED, KV_CODED);
}

float world_logit(const world *w, int h, int g, int t, int token) {
  const float *q = w->q + ((size_t)h * T + (size_t)t) * D;
  const float *k = w->k + ((size_t)g * T + (size_t)token) * D;
  float a = 0;
  for (int i = 0; i < D; i++) a = kv_fma(q[i], k[i], a);
  return a * w->shape.scale + 0.0f;
}
