/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention received. Contract: ref/parts/received.h.
 */
#include "ref/parts/received.h"
#include <string.h>

size_t kv_received_state(const kv_shape *s) {
  return kv_window_state(s, KV_GROUP_MAX) + sizeof(kv_received);
}

static kv_received *received(const kv_at *at, const kv_lane *lane) {
  char *own = kv_own(at, lane);
  return (kv_received *)(own + kv_window_state(at->shape, KV_GROUP_MAX));
}

int kv_received_first(const kv_at *at, const kv_lane *lane) {
  return received(at, lane)->first;
}

/* Subtracts the attention that each token got from its own query. */
static void leave_out_own(const kv_at *at, const kv_lane *lane,
                          const kv_rows *rows) {
  int64_t *sum = kv_own(at, lane);
  for (int h = 0; h < rows->heads; h++, sum += at->shape->n_tokens)
    for (int r = 0; r < rows->rows; r++) {
      size_t own = (size_t)kv_rows_visible(rows, r) - 1;
      sum[own] -= kv_fix(rows->p[kv_rows_at(rows, r, h) * rows->stride + own]);
    }
}

static void add_step(const kv_rows *rows, int n, float *column) {
  for (int i = 0; i < n; i++) {
    int64_t most = rows->sum[i];
    for (int h = 1; h < rows->heads; h++) {
      int64_t sum = rows->sum[(size_t)h * rows->stride + (size_t)i];
      most = sum > most ? sum : most;
    }
    column[i] = kv_add(column[i], kv_unfix(most));
  }
}

void kv_received_add(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                     int column, bool own) {
  if (rows->first >= at->shape->prompt_len) {
    int n = rows->entries - !own; /* the newest is the last */
    add_step(rows, n, kv_column_float(at, lane, column));
    return;
  }
  kv_window_add(at, lane, rows, KV_GROUP_MAX);
  if (!own) leave_out_own(at, lane, rows);
}

void kv_received_compress(const kv_at *at, kv_lane *lane, int column,
                          int queries) {
  kv_received *c = received(at, lane);
  bool gap = kv_received_gap(c, at->shape, queries);
  c->next = at->step;
  if (at->step > at->shape->prompt_len) return;
  size_t used = at->work->used;
  float *score = kv_column_float(at, lane, column);
  float *more = KV_TAKE(at->work, float, lane->n);
  kv_window_score(at, lane, KV_GROUP_MAX, KV_POOL_NONE, 1, lane->n, more);
  for (int i = 0; i < lane->n; i++)
    score[i] = gap ? more[i] : kv_add(score[i], more[i]);
  if (gap) c->first = at->shape->prompt_len - queries;
  memset(kv_own(at, lane), 0, kv_window_state(at->shape, KV_GROUP_MAX));
  at->work->used = used;
}
