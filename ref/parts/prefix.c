/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefixes of rows in falling order, without sorting them. Contract:
 * ref/parts/votes.h. What lies above a guess is gathered by the row kernel, and
 * the guess lowered until the prefix is there; among those few it is found by
 * radix. Cost: O(n) with a vector a few entries long, and O(those few).
 */
#include "ref/kernels/kernels.h"
#include "ref/parts/votes.h"

/* Gathers those of x that are at least the guess; returns how many. */
static int gather(kv_prefixes *f, const float *x, int n, float most) {
  return f->at->kernels->at_least(x, n, kv_sub(most, f->reach), f->value,
                                  f->place);
}

/* The guess reaches further, in the end to infinity, where all are. */
static void reach_on(kv_prefixes *f) {
  f->reach = f->reach > 0 ? kv_mul(f->reach, 2.0f) : 1.0f;
}

/* Leaves of m gathered those above the key, and of those at it the first
 * `equals`; returns how many. The guess becomes where they ended, and some. */
static int leave(kv_prefixes *f, int m, uint32_t cut, int equals, float most) {
  int n = 0;
  float last = most;
  for (int i = 0; i < m; i++) {
    uint32_t key = kv_key(f->value[i]);
    bool in = key > cut || (key == cut && equals-- > 0);
    if (key == cut) last = f->value[i];
    f->weight[n] = f->weight[i];
    f->place[n] = f->place[i];
    n += in;
  }
  f->reach = kv_mul(kv_sub(most, last), 1.125f);
  return n;
}

static int64_t weigh(kv_prefixes *f, int m, const float *e) {
  int64_t sum = 0;
  for (int i = 0; i < m; i++) {
    f->weight[i] = kv_fix(e[f->place[i]]);
    sum += f->weight[i];
  }
  return sum;
}

/* How many of those at the key are in, the ones above having `above`. */
static int equals_of(const kv_prefixes *f, int m, uint32_t cut, int64_t above,
                     int64_t target) {
  int equals = 0;
  for (int i = 0; i < m && above < target; i++)
    if (kv_key(f->value[i]) == cut) {
      equals++;
      above += f->weight[i];
    }
  return equals;
}

int kv_prefix_by_mass(kv_prefixes *f, const float *x, const float *e, int n,
                      float most, int64_t all, int32_t p20, bool ties,
                      int64_t *mass) {
  int64_t target = kv_share_of(all, p20), above;
  int m = gather(f, x, n, most);
  while (weigh(f, m, e) < target && m < n) {
    reach_on(f);
    m = gather(f, x, n, most);
  }
  uint32_t cut = kv_mass_key(f->value, f->weight, m, target, &above);
  int equals = ties ? m : equals_of(f, m, cut, above, target);
  int kept = leave(f, m, cut, equals, most);
  *mass = 0;
  for (int i = 0; i < kept; i++) *mass += f->weight[i];
  return kept;
}

void kv_prefix_by_count(kv_prefixes *f, const float *x, int n, float most,
                        int k) {
  int equals, m = gather(f, x, n, most);
  while (m < k) {
    reach_on(f);
    m = gather(f, x, n, most);
  }
  uint32_t cut = kv_nth_key(f->value, m, k, &equals);
  leave(f, m, cut, equals, most);
}
