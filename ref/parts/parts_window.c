/* SPDX-License-Identifier: Apache-2.0
 *
 * The window methods (SnapKV, PyramidKV, AdaKV): one scoring, three ways of
 * spending the budget. What they share is here.
 */
#include "ref/parts/parts.h"

int kv_fallback_window(int budget) {
  int half = budget / 2 > 1 ? budget / 2 : 1;
  return half < 32 ? half : 32;
}

kv_rc kv_open_window(const kv_shape *shape, const char *method, int budget,
                     kv_window_options *o, kv_needs *needs, kv_err *e) {
  kv_rc rc = kv_open_budget(method, budget, e);
  if (rc) return rc;
  if (o->window == KV_UNSET) o->window = kv_fallback_window(budget);
  if (o->window < 1)
    return kv_fail(e, KV_USAGE,
                   "%s: window=0 leaves no query that votes; "
                   "write window=1 or more",
                   method);
  rc = kv_open_part(method, "window", o->window, budget, e);
  if (!rc) rc = kv_open_kernel(method, o->kernel, e);
  if (rc) return rc;
  kv_group_rule group = (kv_group_rule)o->group;
  int rows = o->window < shape->prompt_len ? o->window : shape->prompt_len;
  needs->prompt_rows = rows;
  needs->want = KV_SUM;
  needs->lanes = kv_group_lanes(group);
  needs->lane_state = kv_window_state(shape, group);
  needs->slides = needs->chunks = true;
  needs->slid = kv_window_planes(shape, group);
  return kv_open_sums(method, o->window, kv_score_heads(shape, group),
                      o->kernel, e);
}

void kv_window_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                       const kv_window_options *o) {
  kv_window_add(at, lane, rows, (kv_group_rule)o->group);
}

float *kv_window_past(const kv_at *at, const kv_lane *lane,
                      const kv_window_options *o) {
  int n = lane->n - o->window;
  float *score = KV_TAKE(at->work, float, n);
  size_t used = at->work->used;
  kv_window_score(at, lane, (kv_group_rule)o->group, (kv_pooling)o->pooling,
                  o->kernel, n, score);
  at->work->used = used;
  return score;
}

void kv_window_keep(const kv_at *at, kv_lane *lane, const kv_window_options *o,
                    int past) {
  if (lane->n <= past + o->window) return;
  const float *score = kv_window_past(at, lane, o);
  kv_keep_top_recent(at, lane, score, past, o->window);
}
