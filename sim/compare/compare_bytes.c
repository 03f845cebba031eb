/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two ledgers: of a lane in its present state, and of finished cells,
 * whose steps and totals are sums of the same integers.
 */
#include "sim/compare/compare_part.h"

#include <string.h>

static uint64_t word_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

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
  return look_steps(l, a, b) || look(l, -1, &x->end, &y->end, " at the end") ||
         differ(l, -1, "peak", x->peak, y->peak, "") ||
         differ(l, -1, "codes_peak", x->codes_peak, y->codes_peak, "") ||
         differ(l, -1, "fetched", x->fetched, y->fetched, "") ||
         differ(l, -1, "moved", x->moved, y->moved, "") ||
         differ(l, -1, "verbs", x->verbs, y->verbs, "") ||
         differ(l, -1, "kept_min", x->kept_min, y->kept_min, "") ||
         differ(l, -1, "kept_max", x->kept_max, y->kept_max, "") ||
         tell(l, -1, "kept", word_of(x->kept), word_of(y->kept), "") ||
         tell(l, -1, "attended", word_of(x->attended), word_of(y->attended),
              "");
}
