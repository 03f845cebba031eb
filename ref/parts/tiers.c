/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tiers of precision. Contract: ref/parts/tiers.h.
 */
#include "ref/parts/tiers.h"

static const char *const tiers[] = {"high", "low"};
static const char *const letters[] = {"k", "v"};
static const char *const rows[] = {"key", "value"};

static int bits_of(const kv_tiers *t, int tier, int side) {
  int choice = t->bits[tier];
  return 16 >> (side == KV_TIER_K ? choice / KV_TIER_WIDTHS
                                  : choice % KV_TIER_WIDTHS);
}

static bool alike(const kv_tiers *t, int side) {
  int high = bits_of(t, KV_TIER_HIGH, side),
      low = bits_of(t, KV_TIER_LOW, side);
  return high == low && (high == 16 || t->groups[KV_TIER_HIGH][side] ==
                                           t->groups[KV_TIER_LOW][side]);
}

/* No side gains bits on its way down: the low tier has at most the high one's.
 */
static void cap(kv_tiers *t) {
  int high = t->bits[KV_TIER_HIGH], low = t->bits[KV_TIER_LOW];
  int k = high / KV_TIER_WIDTHS, v = high % KV_TIER_WIDTHS;
  if (low / KV_TIER_WIDTHS > k) k = low / KV_TIER_WIDTHS;
  if (low % KV_TIER_WIDTHS > v) v = low % KV_TIER_WIDTHS;
  t->bits[KV_TIER_LOW] = k * KV_TIER_WIDTHS + v;
}

static kv_rc check(const kv_tiers *t, int tier, int side, int width,
                   const char *method, kv_err *e) {
  int groups = t->groups[tier][side];
  if (bits_of(t, tier, side) == 16 || width % groups == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %d groups do not divide the %d elements of a %s; choose "
                 "%s_%s_groups as one of their divisors",
                 method, groups, width, rows[side], tiers[tier], letters[side]);
}

static void add(kv_tiers *t, int tier, int side, int width, kv_needs *needs) {
  static const kv_coded_sides sides[] = {KV_KEYS_ONLY, KV_VALUES_ONLY};
  int bits = bits_of(t, tier, side);
  kv_minmax *how = &t->how[tier][side];
  bool low = tier == KV_TIER_LOW;
  t->coding[tier][side] = low ? t->coding[KV_TIER_HIGH][side] : (int)KV_SAME;
  if (bits == 16 || (low && alike(t, side))) return;
  *how = (kv_minmax){bits, width / t->groups[tier][side], KV_RULE_UNROUNDED};
  t->coding[tier][side] = needs->codings;
  needs->coding[needs->codings++] =
      (kv_coding){&kv_format_token, how, false, sides[side]};
}

kv_rc kv_open_tiers(const kv_shape *shape, const char *method, kv_tiers *t,
                    kv_needs *needs, kv_err *e) {
  const int width[] = {shape->d, shape->d_v};
  cap(t);
  for (int i = 0; i < KV_TIER_COUNT * KV_TIER_SIDES; i++) {
    int tier = i / KV_TIER_SIDES, side = i % KV_TIER_SIDES;
    kv_rc rc = check(t, tier, side, width[side], method, e);
    if (rc) return rc;
    add(t, tier, side, width[side], needs);
  }
  t->tell = !alike(t, KV_TIER_K)   ? KV_TIER_K
            : !alike(t, KV_TIER_V) ? KV_TIER_V
                                   : -1;
  return KV_OK;
}

/* As recode names it. */
static int coding_of(const kv_at *at, const kv_tiers *t, int tier, int side) {
  int i = t->coding[tier][side];
  return i == KV_SAME ? (int)KV_SAME : kv_coded(at, i);
}

bool kv_tier_is_low(const kv_at *at, const kv_lane *lane, const kv_tiers *t,
                    int i) {
  if (kv_one_tier(t)) return false;
  const kv_cell_ref *side = t->tell == KV_TIER_K ? lane->k : lane->v;
  return side[i].format == coding_of(at, t, KV_TIER_LOW, t->tell);
}

int kv_tier_first_new(const kv_lane *lane, const kv_tiers *t) {
  if (t->coding[KV_TIER_HIGH][KV_TIER_K] != KV_SAME)
    return kv_first_full(lane->k, lane->n);
  if (t->coding[KV_TIER_HIGH][KV_TIER_V] != KV_SAME)
    return kv_first_full(lane->v, lane->n);
  return lane->n;
}

void kv_tier_code(const kv_at *at, kv_lane *lane, const kv_tiers *t, int32_t i,
                  int tier) {
  int k = coding_of(at, t, tier, KV_TIER_K);
  int v = coding_of(at, t, tier, KV_TIER_V);
  if (k != KV_SAME || v != KV_SAME) kv_recode(lane, 1, &i, k, v);
}

void kv_tier_demote(const kv_at *at, kv_lane *lane, const kv_tiers *t,
                    int32_t i) {
  int to[KV_TIER_SIDES];
  for (int side = 0; side < KV_TIER_SIDES; side++) {
    bool stays = t->coding[KV_TIER_LOW][side] == t->coding[KV_TIER_HIGH][side];
    to[side] = stays ? (int)KV_SAME : coding_of(at, t, KV_TIER_LOW, side);
  }
  kv_recode(lane, 1, &i, to[KV_TIER_K], to[KV_TIER_V]);
}
