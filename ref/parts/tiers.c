/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiers of precision. Contract: ref/parts/tiers.h.
 */
#include "ref/parts/tiers.h"

static const char *const tiers[] = {"high", "middle_1", "middle_2", "low"};
static const char *const letters[] = {"k", "v"};
static const char *const rows[] = {"key", "value"};

static int bits_of(const kv_tiers *t, int asked, int side) {
  int choice = t->bits[asked];
  return 16 >> (side == KV_TIER_K ? choice / KV_TIER_WIDTHS
                                  : choice % KV_TIER_WIDTHS);
}

static bool alike(const kv_tiers *t, int above, int below, int side) {
  int high = bits_of(t, above, side), low = bits_of(t, below, side);
  return high == low &&
         (high == 16 || t->groups[above][side] == t->groups[below][side]);
}

/* A side gains no bits on its way down: at most those of the tier above. */
static void cap(kv_tiers *t, int above, int below) {
  int high = t->bits[above], low = t->bits[below];
  int k = high / KV_TIER_WIDTHS, v = high % KV_TIER_WIDTHS;
  if (low / KV_TIER_WIDTHS > k) k = low / KV_TIER_WIDTHS;
  if (low % KV_TIER_WIDTHS > v) v = low % KV_TIER_WIDTHS;
  t->bits[below] = k * KV_TIER_WIDTHS + v;
}

static kv_rc check(const kv_tiers *t, int asked, int side, int width,
                   const char *method, kv_err *e) {
  int groups = t->groups[asked][side];
  if (bits_of(t, asked, side) == 16 || width % groups == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %d groups do not divide the %d elements of a %s; choose "
                 "a divisor for %s_%s_groups",
                 method, groups, width, rows[side], tiers[asked],
                 letters[side]);
}

/* Adds a side of the new tier t->n, below the existing ones. */
static void add_side(kv_tiers *t, int asked, int side, int width,
                     kv_needs *needs) {
  static const kv_coded_sides sides[] = {KV_KEYS_ONLY, KV_VALUES_ONLY};
  int bits = bits_of(t, asked, side), tier = t->n;
  kv_minmax *how = &t->how[tier][side];
  int *coding = &t->coding[tier][side];
  *coding = KV_SAME;
  if (bits == 16) return;
  if (tier && alike(t, t->last[tier - 1], asked, side)) {
    *coding = t->coding[tier - 1][side];
    return;
  }
  *how = (kv_minmax){bits, width / t->groups[asked][side], KV_RULE_UNROUNDED};
  *coding = needs->codings;
  needs->coding[needs->codings++] =
      KV_CODING(&kv_format_token, how, false, sides[side]);
}

static void add(const kv_shape *shape, kv_tiers *t, int asked,
                kv_needs *needs) {
  int above = t->n ? t->last[t->n - 1] : -1;
  if (above >= 0 && alike(t, above, asked, KV_TIER_K) &&
      alike(t, above, asked, KV_TIER_V)) {
    t->last[t->n - 1] = asked;
    return;
  }
  add_side(t, asked, KV_TIER_K, shape->d, needs);
  add_side(t, asked, KV_TIER_V, shape->d_v, needs);
  t->first[t->n] = t->last[t->n] = asked;
  t->n++;
}

kv_rc kv_open_tiers(const kv_shape *shape, const char *method, kv_tiers *t,
                    kv_needs *needs, kv_err *e) {
  const int width[] = {shape->d, shape->d_v};
  t->n = 0;
  for (int i = KV_TIER_1; i < KV_TIER_LOW; i++)
    t->groups[i][KV_TIER_K] = t->groups[i][KV_TIER_V] = 1;
  for (int i = 0; i < KV_TIER_COUNT; i++) {
    if (t->bits[i] == KV_TIER_NONE) continue;
    if (t->n) cap(t, t->last[t->n - 1], i);
    for (int side = 0; side < KV_TIER_SIDES; side++) {
      kv_rc rc = check(t, i, side, width[side], method, e);
      if (rc) return rc;
    }
    add(shape, t, i, needs);
  }
  needs->tiers = t->n;
  return KV_OK;
}

/* A tier's side as recode names it. */
static int coding_of(const kv_at *at, const kv_tiers *t, int tier, int side) {
  int i = t->coding[tier][side];
  return i == KV_SAME ? (int)KV_SAME : kv_coded(at, i);
}

/* Can a side in this format belong to the tier? An uncoded side belongs to
 * every tier that stores it uncoded. */
static bool is_of(const kv_at *at, const kv_tiers *t, int tier, int side,
                  int format) {
  int coding = coding_of(at, t, tier, side);
  return coding == KV_SAME || coding == format;
}

int kv_tier_of(const kv_at *at, const kv_lane *lane, const kv_tiers *t, int i) {
  for (int tier = t->n - 1; tier > 0; tier--)
    if (is_of(at, t, tier, KV_TIER_K, lane->k[i].format) &&
        is_of(at, t, tier, KV_TIER_V, lane->v[i].format))
      return tier;
  return 0;
}

int kv_tier_first_new(const kv_lane *lane, const kv_tiers *t) {
  if (t->coding[0][KV_TIER_K] != KV_SAME)
    return kv_first_full(lane->k, lane->n);
  if (t->coding[0][KV_TIER_V] != KV_SAME)
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
                    int32_t i, int from, int to) {
  int as[KV_TIER_SIDES];
  for (int side = 0; side < KV_TIER_SIDES; side++) {
    bool stays = t->coding[to][side] == t->coding[from][side];
    as[side] = stays ? (int)KV_SAME : coding_of(at, t, to, side);
  }
  kv_recode(lane, 1, &i, as[KV_TIER_K], as[KV_TIER_V]);
}

/* --- alphas --------------------------------------------------------------- */

static const kv_tensor_ask tensors[] = {
    {.name = "weights",
     .type = KV_T_F32,
     .rank = 3,
     .dim = {KV_DIM_LAYERS, KV_DIM_KV_HEADS, KV_DIM_ANY}},
    {.name = NULL}};
const kv_asset_kind kv_alphas_kind = {NULL, tensors};

static const char *const names[] = {"alpha_h", "alpha_1", "alpha_2", "alpha_l"};

static bool there(const kv_tiers *t, int asked) {
  return t->bits[asked] != KV_TIER_NONE;
}

/* --- parameters ---------------------------------------------------------- */

/* A middle tier and its alpha must be given together. */
static kv_rc check_given(const char *method, const kv_tiers *t,
                         const kv_alphas *a, int i, kv_err *e) {
  bool given = a->asked[i] == a->asked[i];
  if (there(t, i) == given) return KV_OK;
  return kv_fail(
      e, KV_REFUSED,
      given ? "%s: %s needs middle_%d; set its bits, too, or leave both out"
            : "%s: %s, the alpha of middle_%d, is missing; set it between "
              "alpha_l and alpha_h",
      method, names[i], i);
}

static kv_rc check_falling(const char *method, const kv_alphas *a, int above,
                           int i, kv_err *e) {
  if (!(a->asked[i] > a->asked[above])) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %s=%g must not exceed %s=%g; lower %s or raise %s",
                 method, names[i], (double)a->asked[i], names[above],
                 (double)a->asked[above], names[i], names[above]);
}

static kv_rc check_alphas(const char *method, const kv_tiers *t,
                          const kv_alphas *a, kv_err *e) {
  int64_t share = 0;
  int above = KV_TIER_HIGH;
  for (int i = 0; i < KV_TIER_COUNT; i++) {
    kv_rc rc = check_given(method, t, a, i, e);
    if (!rc) rc = check_falling(method, a, above, i, e);
    if (rc) return rc;
    if (there(t, i)) above = i;
    share += a->share[i];
  }
  if (share <= 1 << 20) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: high_share, low_share and the shares between add up to "
                 "more than 1; lower one of them",
                 method);
}

/* --- weights in a file --------------------------------------------------- */

static const char *wrong_with(const kv_tiers *t, const kv_alphas *a,
                              const float *weights) {
  for (int i = 0; i < a->weights; i++)
    if (!(weights[i] >= 0)) return "a weight is negative";
  for (int i = 1; i < t->n; i++)
    if (kv_alpha_of(a, weights, i) > kv_alpha_of(a, weights, i - 1))
      return "alphas times weights rise from a tier to the next lower one";
  return NULL;
}

static kv_rc open_weights(const kv_shape *s, const kv_tiers *t, kv_alphas *a,
                          kv_err *e) {
  const kv_asset *from = a->file.asset;
  int asked = 0;
  for (int i = 0; i < KV_TIER_COUNT; i++) asked += there(t, i);
  if (from->tensor->dim[2] != asked)
    return kv_fail(e, KV_REFUSED,
                   "%s: there are %d weights a head but %d tiers; give one "
                   "weight for each tier, from high to low",
                   from->path, (int)from->tensor->dim[2], asked);
  a->weights = asked;
  for (int l = 0; l < s->n_layers; l++)
    for (int g = 0; g < s->n_kv_heads; g++) {
      const void *all = from->tensor->data;
      const char *wrong = wrong_with(t, a, kv_alpha_weights(a, all, s, l, g));
      if (wrong)
        return kv_fail(e, KV_REFUSED, "%s: %s for KV head %d of layer %d",
                       from->path, wrong, g, l);
    }
  return KV_OK;
}

kv_rc kv_open_alphas(const kv_shape *shape, const char *method,
                     const kv_tiers *t, kv_alphas *a, kv_err *e) {
  kv_rc rc = check_alphas(method, t, a, e);
  a->weights = 0;
  for (int i = 0; i < t->n; i++) {
    a->of[i] = a->asked[t->last[i]];
    a->most[i] = a->share[t->first[i]];
    a->weight[i] = 0;
    for (int j = 0; j < t->last[i]; j++) a->weight[i] += there(t, j);
  }
  return rc || !a->file.asset ? rc : open_weights(shape, t, a, e);
}
