/* SPDX-License-Identifier: Apache-2.0
 *
 * A sliding window moves over a lane: contract in ref/backend/store.h. After
 * `step` tokens the next one, number `step`, sees tokens step - W + 1 and on;
 * those before can be of no use to any method and leave in the same way for all
 * of them. A lane's ids ascend, as methods whose verbs give entries another
 * order do not slide, so that what leaves stands first.
 */
#include "ref/backend/store.h"
#include "ref/lane/compose.h"
#include <string.h>

/* How many entries, from the first on, stand for tokens before `from`. */
static int count_before(const kv_lane *l, int from) {
  int n = 0;
  while (n < l->n && (int64_t)l->id[n] < from) n++;
  return n;
}

/* The rows of needs.slid of each method on the lane, of n entries of which the
 * first m leave. */
static void move_rows(const kv_store *s, kv_lane *l, int n, int m) {
  const kv_plan *p = s->plan;
  kv_method_part part[KV_MOST_PARTS];
  int parts = kv_parts_opened(p->method, p->params, &p->needs, part);
  size_t stay = (size_t)(n - m), width = (size_t)s->shape.n_tokens;
  for (int i = 0; i < parts; i++)
    for (int r = 0; r < part[i].needs->slid; r++) {
      int64_t *row = (int64_t *)(void *)((char *)l->own + part[i].state) +
                     (size_t)r * width;
      memmove(row, row + m, stay * sizeof *row);
      memset(row + stay, 0, (size_t)m * sizeof *row);
    }
}

void kv_ref_slide(kv_store *s, kv_lane *l) {
  int w = kv_plan_window(s->plan, s->data);
  int m = w ? count_before(l, l->step - w + 1) : 0, n = l->n;
  if (m == 0) return;
  for (int i = m; i < n; i++) l->room.list[i - m] = i;
  kv_keep(l, n - m, l->room.list);
  move_rows(s, l, n, m);
}
