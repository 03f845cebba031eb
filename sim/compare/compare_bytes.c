/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two ledgers: of a lane in its present state, and of finished cells,
 * whose steps and totals are sums of the same integers.
 */
#include "sim/compare/compare_part.h"

static bool tell(const kv_look *l, int lane, const char *what, uint64_t a,
                 uint64_t b, const char *when) {
  kv_look_at at = {.what = what,
                   .lane = lane,
                   .head = -1,
                   .index = -1,
                   .value = {a, b},
                   .digits = {16, 16}};
  return a != b && kv_look_tell(l, &at, "ledger, %s%s", what, when);
}

static bool differ(const kv_look *l, int lane, const char *what, int64_t a,
                   int64_t b, const char *when) {
  return tell(l, lane, what, (uint64_t)a, (uint64_t)b, when);
}

static bool look(const kv_look *l, int lane, const kv_bytes *x,
                 const kv_bytes *y, const char *when) {
  for (int i = 0; i < KV_N_BYTE_KINDS; i++)
    if (differ(l, lane, kv_byte_kind_at(i)->name, kv_bytes_get(x, i),
               kv_bytes_get(y, i), when))
      return true;
  return false;
}

bool kv_look_bytes(const kv_look *l, const kv_lane *a, const kv_lane *b,
                   const char *when) {
  kv_bytes x = {0}, y = {0};
  kv_lane_bytes(a, &x);
  kv_lane_bytes(b, &y);
  return look(l, a->lane, &x, &y, when);
}

static bool look_steps(kv_look *l, const kv_result *a, const kv_result *b) {
  for (int i = 0; i < a->n_steps && i < b->n_steps; i++) {
    const kv_step_cost *x = &a->step[i], *y = &b->step[i];
    l->step = x->step;
    if (differ(l, -1, "bytes", x->bytes, y->bytes, "") ||
        differ(l, -1, "codes", x->codes, y->codes, "") ||
        differ(l, -1, "read", x->read, y->read, "") ||
        differ(l, -1, "scanned", x->scanned, y->scanned, ""))
      return true;
  }
  l->step = -1;
  return differ(l, -1, "steps", a->n_steps, b->n_steps, "");
}

bool kv_look_ledger(kv_look *l, const kv_result *a, const kv_result *b) {
  const kv_totals *x = &a->totals, *y = &b->totals;
  l->layer = -1;
  if (look_steps(l, a, b) || look(l, -1, &x->end, &y->end, " at the end"))
    return true;
  for (int i = 0; i < kv_n_scalars; i++) {
    const kv_scalar *s = &kv_scalars[i];
    if (s->combine == KV_COMBINE_EXACT &&
        differ(l, -1, s->name, kv_scalar_bits(x, s), kv_scalar_bits(y, s), ""))
      return true;
  }
  return false;
}
