/* SPDX-License-Identifier: Apache-2.0
 *
 * Alphas of tiers, by head. Contract: ref/parts/alphas.h.
 */
#include "ref/parts/alphas.h"

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

/* --- what is asked for ---------------------------------------------------- */

/* A middle tier and its alpha come together. */
static kv_rc check_given(const char *method, const kv_tiers *t,
                         const kv_alphas *a, int i, kv_err *e) {
  bool given = a->asked[i] == a->asked[i];
  if (there(t, i) == given) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 given
                     ? "%s: %s is of middle_%d, which is none; say its bits, "
                       "too, or leave both out"
                     : "%s: %s, the alpha of middle_%d, is not given; say it, "
                       "from alpha_l to alpha_h",
                 method, names[i], i);
}

static kv_rc check_falling(const char *method, const kv_alphas *a, int above,
                           int i, kv_err *e) {
  if (!(a->asked[i] > a->asked[above])) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %s=%g is above %s=%g; what goes further down would not "
                 "be there before; lower %s or raise %s",
                 method, names[i], (double)a->asked[i], names[above],
                 (double)a->asked[above], names[i], names[above]);
}

static kv_rc check(const char *method, const kv_tiers *t, const kv_alphas *a,
                   kv_err *e) {
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
                 "%s: high_share, low_share and those between are more than 1 "
                 "together; lower one of them",
                 method);
}

/* --- what a file has for each head ---------------------------------------- */

static const char *wrong_with(const kv_tiers *t, const kv_alphas *a,
                              const float *weights) {
  for (int i = 0; i < a->weights; i++)
    if (!(weights[i] >= 0)) return "a weight is below 0";
  for (int i = 1; i < t->n; i++)
    if (kv_alpha_of(a, weights, i) > kv_alpha_of(a, weights, i - 1))
      return "alphas times weights rise from a tier to the one below it";
  return NULL;
}

static kv_rc open_weights(const kv_shape *s, const kv_tiers *t, kv_alphas *a,
                          kv_err *e) {
  const kv_asset *from = a->file.asset;
  int tiers = 0;
  for (int i = 0; i < KV_TIER_COUNT; i++) tiers += there(t, i);
  if (from->tensor->dim[2] != tiers)
    return kv_fail(e, KV_REFUSED,
                   "%s: %d weights a head, and %d tiers are asked for; give "
                   "one for each, from high to low",
                   from->path, (int)from->tensor->dim[2], tiers);
  a->weights = tiers;
  for (int l = 0; l < s->n_layers; l++)
    for (int g = 0; g < s->n_kv_heads; g++) {
      const void *all = from->tensor->data;
      const char *wrong = wrong_with(t, a, kv_alpha_weights(a, all, s, l, g));
      if (wrong)
        return kv_fail(e, KV_REFUSED,
                       "%s: %s for KV head %d of layer %d; mend it", from->path,
                       wrong, g, l);
    }
  return KV_OK;
}

/* --- open ----------------------------------------------------------------- */

kv_rc kv_open_alphas(const kv_shape *shape, const char *method,
                     const kv_tiers *t, kv_alphas *a, kv_err *e) {
  kv_rc rc = check(method, t, a, e);
  a->weights = 0;
  for (int i = 0; i < t->n; i++) {
    a->of[i] = a->asked[t->last[i]];
    a->most[i] = a->share[t->first[i]];
    a->weight[i] = 0;
    for (int j = 0; j < t->last[i]; j++) a->weight[i] += there(t, j);
  }
  return rc || !a->file.asset ? rc : open_weights(shape, t, a, e);
}
