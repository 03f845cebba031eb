/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrapped copy of the graded method: each hook calls the method's own hook,
 * with its own needs, and reports to the grading.
 */
#include "sim/grade/grade_part.h"

/* Calls the method's own hook and records its selections. */
static void watched(const kv_grading *g, kv_call *c) {
  kv_selecting_now = &g->look;
  kv_hook_call(g->real, c);
  kv_selecting_now = NULL;
}

static void view(kv_grading *g, kv_call *c) {
  const kv_lane *lane = c->lane[0];
  if (g->real->view)
    watched(g, c);
  else
    kv_view_add(c->view, 0, lane->n);
  if (g->views)
    kv_grade_view(g, lane, lane->first_head + c->query->head, c->view);
}

/* Grades the lane as it is once merges are swept. */
static void sweep(kv_call *c) {
  for (int i = 0; i < c->lanes; i++) kv_sweep(c->lane[i]);
}

/* Called at every step; calls the method's own hook where it is due. */
static void compress_lane(kv_grading *g, kv_call *c) {
  kv_lane *lane = c->lane[0];
  bool due = kv_compression_due(c->at.needs, c->at.shape, c->at.step);
  g->kept[lane->lane] = 0;
  if (due) watched(g, c);
  sweep(c);
  if (!g->stores || (due && g->real->compress_layer)) return;
  if (!due && !kv_grade_has_list(g, lane)) return;
  kv_grade_lane_end(g, lane);
  kv_grade_compressed(g, c->lane, 1);
}

static void compress_layer(kv_grading *g, kv_call *c) {
  if (!kv_compression_due(c->at.needs, c->at.shape, c->at.step)) return;
  watched(g, c);
  sweep(c);
  if (!g->stores) return;
  for (int i = 0; i < c->lanes; i++) kv_grade_lane_end(g, c->lane[i]);
  kv_grade_compressed(g, c->lane, c->lanes);
}

static void call(const kv_around *around, kv_call *c) {
  kv_grading *g = around->self;
  kv_ranks_forget(&g->ranks);
  c->at.needs = &kv_plan_of(&g->own, c->at.layer)->needs;
  if (c->hook == KV_HOOK_view)
    view(g, c);
  else if (c->hook == KV_HOOK_compress_lane)
    compress_lane(g, c);
  else if (c->hook == KV_HOOK_compress_layer)
    compress_layer(g, c);
  else
    kv_hook_call(g->real, c);
}

static void put_copy(kv_grading *g, kv_plan *plan) {
  plan->method = &g->method;
  if (!g->stores) return;
  plan->needs.every = 1; /* their lists may be at any step */
  plan->needs.phase = 0;
}

void kv_grade_wrap(kv_grading *g, kv_plan *plan) {
  g->around =
      (kv_around){.call = call,
                  .self = g,
                  .inner = g->real,
                  .also = 1u << KV_HOOK_view | 1u << KV_HOOK_compress_lane};
  g->method = kv_method_around(&g->around);
  put_copy(g, plan);
  for (int l = 0; plan->layer && l < plan->shape->n_layers; l++) {
    g->wrapped[l] = plan->layer[l];
    put_copy(g, &g->wrapped[l]);
  }
  if (plan->layer) plan->layer = g->wrapped;
}
