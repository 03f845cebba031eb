/* SPDX-License-Identifier: Apache-2.0
 *
 * A sliding window moves over a lane: contract in ref/backend/store.h. After
 * `step` tokens the next one, number `step`, sees tokens step - W + 1 and on;
 * those before can be of no use to any method and leave in the same way for all
 * of them.
 */
#include "ref/backend/store.h"
#include "ref/lane/compose.h"
#include <string.h>

/* The rows of needs.slid of each method on the lane: of n entries stay those of
 * list[0..m), ascending. */
static void move_rows(const kv_store *s, kv_lane *l, int n, int m,
                      const int32_t *list) {
  const kv_plan *p = s->plan;
  kv_method_part part[KV_MOST_PARTS];
  int parts = kv_parts_opened(p->method, p->params, &p->needs, part);
  for (int i = 0; i < parts; i++)
    for (int r = 0; r < part[i].needs->slid; r++) {
      int64_t *row = (int64_t *)(void *)((char *)l->own + part[i].state) +
                     (size_t)r * (size_t)s->shape.n_tokens;
      for (int j = 0; j < m; j++) row[j] = row[list[j]];
      memset(row + m, 0, (size_t)(n - m) * sizeof *row);
    }
}

void kv_ref_slide(kv_store *s, kv_lane *l) {
  int w = kv_plan_window(s->plan, s->data), from = l->step - w + 1, m = 0;
  int32_t *list = l->room.list;
  if (w == 0 || from <= 0) return;
  for (int i = 0; i < l->n; i++)
    if (l->id[i] >= (uint32_t)from) list[m++] = i;
  if (m == l->n) return;
  move_rows(s, l, l->n, m, list);
  kv_keep(l, m, list);
}
