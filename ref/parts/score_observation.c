/* SPDX-License-Identifier: Apache-2.0
 *
 * Scorers by attention: the votes of the last queries (SnapKV), the sums of all
 * rows (H2O) and what the last query alone gave (TOVA), all fixed-point sums of
 * probabilities (arithmetic 4). The sums are those of the rows since the last
 * compression.
 */
#include "ref/kernels/kernels.h"
#include "ref/parts/scorers.h"
#include <string.h>

/* --- snapkv: votes, pooled over neighbours -------------------------------- */

static kv_rc open_votes(const kv_shape *shape, const char *method, int budget,
                        kv_score_options *o, kv_needs *needs, kv_err *e) {
  kv_rc rc = kv_open_window(shape, method, budget, &o->w, needs, e);
  o->rows = o->w.window;
  o->state = needs->lane_state;
  return rc;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                    const kv_score_options *o) {
  kv_window_observe(at, lane, rows, &o->w);
}

static void score_votes(const kv_at *at, const kv_lane *lane,
                        const kv_score_options *o, int first, int n,
                        float *out) {
  kv_window_score_from(at, lane, (kv_group_rule)o->w.group,
                       (kv_pooling)o->w.pooling, o->w.kernel, first, n, out);
}

const kv_scorer kv_scorer_snapkv = {.name = "snapkv",
                                    .open = open_votes,
                                    .observe = observe,
                                    .score = score_votes,
                                    .by_entry = true};

/* --- h2o: what every row gave --------------------------------------------- */

static kv_rc open_sums(const kv_shape *shape, const char *method, int budget,
                       kv_score_options *o, kv_needs *needs, kv_err *e) {
  kv_group_rule group = (kv_group_rule)o->w.group;
  if (o->w.window == KV_UNSET) o->w.window = budget / 2;
  int rows = o->form == KV_FORM_PREFILL ? shape->prompt_len : shape->n_tokens;
  needs->want = KV_SUM;
  o->rows = KV_ALL_ROWS;
  o->state = kv_window_state(shape, group);
  return kv_open_sums(method, rows, kv_score_heads(shape, group), 1, e);
}

static void score_sums(const kv_at *at, const kv_lane *lane,
                       const kv_score_options *o, int first, int n,
                       float *out) {
  kv_window_score_from(at, lane, (kv_group_rule)o->w.group, KV_POOL_NONE, 1,
                       first, n, out);
}

const kv_scorer kv_scorer_h2o = {.name = "h2o",
                                 .open = open_sums,
                                 .observe = observe,
                                 .score = score_sums,
                                 .by_entry = true};

/* --- tova: what the last query gave --------------------------------------- */

static kv_rc open_last(const kv_shape *shape, const char *method, int budget,
                       kv_score_options *o, kv_needs *needs, kv_err *e) {
  kv_group_rule group = (kv_group_rule)o->w.group;
  (void)budget;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  needs->want = KV_P;
  o->rows = 1;
  o->state = kv_window_state(shape, group);
  return kv_open_sums(method, 1, kv_score_heads(shape, group), 1, e);
}

/* Of the rows that are shown the last one counts. */
static void observe_last(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                         const kv_score_options *o) {
  size_t n = (size_t)rows->entries;
  int64_t *own = kv_own(at, lane);
  memset(own, 0, o->state);
  for (int h = 0; h < rows->heads; h++) {
    int plane = o->w.group == KV_GROUP_MAX ? h : 0;
    at->kernels->fix_add(
        rows->p + kv_rows_at(rows, rows->rows - 1, h) * rows->stride, (int)n,
        own + (size_t)plane * (size_t)at->shape->n_tokens);
  }
}

const kv_scorer kv_scorer_tova = {.name = "tova",
                                  .open = open_last,
                                  .observe = observe_last,
                                  .score = score_sums,
                                  .by_entry = true};
