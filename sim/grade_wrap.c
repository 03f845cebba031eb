/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy of a method that is graded: every hook calls the method's own,
 * with its own parameters and needs, while the grading looks on.
 */
#include "sim/grade_part.h"

#include <string.h>

static kv_grading *grading_of(const kv_at *at) {
  kv_grading *g;
  memcpy(&g, at->params, sizeof g);
  return g;
}

/* What the method's own hook is told. */
static kv_at own(const kv_grading *g, const kv_at *at) {
  kv_at a = *at;
  a.params = g->params;
  a.needs = &g->needs;
  return a;
}

static void arrive(const kv_at *at, kv_lane *lane, int first) {
  const kv_grading *g = grading_of(at);
  kv_at a = own(g, at);
  g->real->arrive(&a, lane, first);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const kv_grading *g = grading_of(at);
  kv_at a = own(g, at);
  g->real->observe(&a, lane, rows);
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  kv_grading *g = grading_of(at);
  kv_at a = own(g, at);
  kv_ranks_forget(&g->ranks);
  if (g->real->view) {
    kv_selecting_now = &g->look;
    g->real->view(&a, lane, q, out);
    kv_selecting_now = NULL;
  } else {
    kv_view_add(out, 0, lane->n);
  }
  if (g->views) kv_grade_view(g, lane, lane->first_head + q->head, out);
}

/* Called at every step; the method's own where it is due. */
static void settle_lane(const kv_at *at, kv_lane *lane) {
  kv_grading *g = grading_of(at);
  kv_at a = own(g, at);
  bool due = kv_settling_due(&g->needs, at->shape, at->step);
  g->kept[lane->lane] = 0;
  kv_ranks_forget(&g->ranks);
  if (due && g->real->settle_lane) {
    kv_selecting_now = &g->look;
    g->real->settle_lane(&a, lane);
    kv_selecting_now = NULL;
  }
  if (!g->stores || (due && g->real->settle_layer)) return;
  if (!due && !kv_grade_has_list(g, lane)) return;
  kv_grade_lane_end(g, lane);
  kv_grade_settled(g, &lane, 1);
}

static void settle_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  kv_grading *g = grading_of(at);
  kv_at a = own(g, at);
  if (!kv_settling_due(&g->needs, at->shape, at->step)) return;
  kv_ranks_forget(&g->ranks);
  kv_selecting_now = &g->look;
  g->real->settle_layer(&a, lane, lanes);
  kv_selecting_now = NULL;
  if (!g->stores) return;
  for (int i = 0; i < lanes; i++) kv_grade_lane_end(g, lane[i]);
  kv_grade_settled(g, lane, lanes);
}

void kv_grade_wrap(kv_grading *g, kv_plan *plan) {
  g->self = g;
  g->method = *g->real;
  if (g->real->arrive) g->method.arrive = arrive;
  if (g->real->observe) g->method.observe = observe;
  g->method.view = view;
  g->method.settle_lane = settle_lane;
  if (g->real->settle_layer) g->method.settle_layer = settle_layer;
  plan->method = &g->method;
  plan->params = &g->self;
  if (!g->stores) return;
  plan->needs.every = 1; /* theirs may settle at any step */
  plan->needs.phase = 0;
}
