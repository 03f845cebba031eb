/* SPDX-License-Identifier: Apache-2.0
 *
 * What sorts entries into tiers (ref/parts/tiers.h): a tier has scores of
 * alpha / tokens and more. A method puts kv_alphas into its params, with rows
 * for what it asks in its table, and calls kv_open_alphas once, after
 * kv_open_tiers. Each head may have weights of its own, from a file, by which
 * its alphas are multiplied.
 */
#ifndef KV_REF_ALPHAS_H
#define KV_REF_ALPHAS_H

#include "ref/ground/arith.h"
#include "ref/parts/tiers.h"

/* In a method's params. */
typedef struct kv_alphas {
  /* Parameters; of the two by the number of the tier as it is asked for: */
  kv_file file;                 /* kv_alphas_kind: heads' weights */
  float asked[KV_TIER_COUNT];   /* NaN: not given */
  int32_t share[KV_TIER_COUNT]; /* of all entries, in units of 2^-20, where
                                   shares say what a tier has */
  /* By kv_open_alphas, of the tiers that there are; one that was asked for as
   * several has the alpha of the lowest and the share of the highest: */
  float of[KV_TIER_COUNT];
  int32_t most[KV_TIER_COUNT];
  int weight[KV_TIER_COUNT]; /* which of its head's weights it has */
  int weights;               /* a head has; 0: there is no file */
} kv_alphas;

/* The file: tensor `weights` [layers, KV heads, tiers], F32, F16 or BF16. */
extern const kv_asset_kind kv_alphas_kind;

/* Rows of a table. tier: KV_TIER_1 or KV_TIER_2, a tier that need not be there;
 * t, a: the members of the method's params. */
#define KV_MIDDLE_TIER_PARAMS(type, t, a, tier, bits_, alpha_, share_)         \
  KV_CHOICE_PARAM(                                                             \
      bits_, type, t.bits[tier], "none", KV_TIER_CHOICES_OR_NONE,              \
      "bits of a tier between high and low, at most those above it",           \
      .later = true),                                                          \
      KV_REAL_PARAM(alpha_, type, a.asked[tier], NULL, 0, 16,                  \
                    "of that tier: what has less than alpha / tokens is "      \
                    "further down; must be given with it",                     \
                    .later = true),                                            \
      KV_SHARE_PARAM(share_, type, a.share[tier], "0", 0, 1,                   \
                     "of that tier, as low_share", .later = true)
#define KV_ALPHA_WEIGHTS_PARAM(type, a)                                        \
  KV_FILE_PARAM("weights", type, a.file, KV_FILE_OPTIONAL, &kv_alphas_kind,    \
                "what each head's alphas are multiplied by: safetensors, "     \
                "weights [layers, KV heads, tiers], high tier first; "         \
                "default: 1",                                                  \
                .later = true)

/* In open. KV_REFUSED: alphas that rise on the way down, by themselves or in a
 * head; shares of more than all; a middle tier without alpha or the other way
 * round; a file for another number of tiers. */
kv_rc kv_open_alphas(const kv_shape *shape, const char *method,
                     const kv_tiers *t, kv_alphas *a, kv_err *e);

/* The weights of a KV head, in the file's tensor `all`; NULL: there are none.
 */
KV_FN const float *kv_alpha_weights(const kv_alphas *a, const void *all,
                                    const kv_shape *s, int layer, int kv_head) {
  if (!a->weights) return NULL;
  return (const float *)all + (layer * s->n_kv_heads + kv_head) * a->weights;
}

/* The alpha of a tier in a head of these weights, NULL: all are 1. */
KV_FN float kv_alpha_of(const kv_alphas *a, const float *weights, int tier) {
  return weights ? kv_mul(a->of[tier], weights[a->weight[tier]]) : a->of[tier];
}

/* The least score of a tier among n tokens: alpha / n, at most 1. */
KV_FN float kv_alpha_threshold(const kv_alphas *a, const float *weights,
                               int tier, int n) {
  return kv_min(kv_div(kv_alpha_of(a, weights, tier), (float)n), 1.0f);
}

#endif
