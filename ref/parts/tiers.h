/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiers of precision on one lane: what matters is stored in many bits, what
 * matters less in few. A method puts kv_tiers into its params, with rows for
 * bits (KV_TIER_CHOICES) and groups in its table, calls kv_open_tiers once, and
 * then says of each entry only into which tier it goes: 0 is the highest. Codes
 * are those of format "token" by the rule unrounded (ref/FORMATS.md), as LeanKV
 * has them; 16 bits are a side as it came. A side that a tier holds as the one
 * above it is one coding for both.
 */
#ifndef KV_REF_TIERS_H
#define KV_REF_TIERS_H

#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/parts/parts.h"

/* Tiers that a method may be asked for, the highest first. */
enum { KV_TIER_HIGH, KV_TIER_1, KV_TIER_2, KV_TIER_LOW, KV_TIER_COUNT };
enum { KV_TIER_K, KV_TIER_V, KV_TIER_SIDES };
enum { KV_TIER_WIDTHS = 5 }; /* how many there are: 16, 8, 4, 2 and 1 bits */
/* The choices of a parameter that says the bits of K and of V; of a tier that
 * need not be there, these and none. */
#define KV_TIER_CHOICES                                                        \
  "k16v16|k16v8|k16v4|k16v2|k16v1|k8v16|k8v8|k8v4|k8v2|k8v1|k4v16|k4v8|k4v4|"  \
  "k4v2|k4v1|k2v16|k2v8|k2v4|k2v2|k2v1|k1v16|k1v8|k1v4|k1v2|k1v1"
#define KV_TIER_CHOICES_OR_NONE KV_TIER_CHOICES "|none"
enum { KV_TIER_NONE = KV_TIER_WIDTHS * KV_TIER_WIDTHS };

/* In a method's params. */
typedef struct kv_tiers {
  /* Parameters, by the enum above: the value of a KV_TIER_CHOICES, that is
   * KV_TIER_WIDTHS * (which width K has) + which V has, 0 being 16 bits, or
   * KV_TIER_NONE; and groups a row, each of which has a scale of its own, of
   * middle tiers one. */
  int bits[KV_TIER_COUNT];
  int groups[KV_TIER_COUNT][KV_TIER_SIDES];
  /* By kv_open_tiers: how many tiers there are, as neighbours that hold both
   * sides alike are one; then of each: the first and the last of those that it
   * was asked for as, by the enum above. */
  int n, first[KV_TIER_COUNT], last[KV_TIER_COUNT];
  int coding[KV_TIER_COUNT][KV_TIER_SIDES]; /* index of needs.coding; KV_SAME:
                                               as it came */
  kv_minmax how[KV_TIER_COUNT][KV_TIER_SIDES]; /* its settings */
} kv_tiers;

/* In open: adds the codings to needs; where a tier is asked for more bits than
 * the one above it, it gets as many as that. KV_REFUSED: groups do not divide a
 * row. t stands in the method's params: codings point to it. */
kv_rc kv_open_tiers(const kv_shape *shape, const char *method, kv_tiers *t,
                    kv_needs *needs, kv_err *e);

/* The tier of entry i; 0 of one that was never coded. */
int kv_tier_of(const kv_at *at, const kv_lane *lane, const kv_tiers *t, int i);
/* Index of the first of the lane's last entries that tier 0 has yet to code;
 * lane->n: none. */
int kv_tier_first_new(const kv_lane *lane, const kv_tiers *t);
/* In a compression: puts an entry that was never coded into a tier. A scale
 * that is not finite is a fault of the lane. */
void kv_tier_code(const kv_at *at, kv_lane *lane, const kv_tiers *t, int32_t i,
                  int tier);
/* The same from a tier into one below it, coded from its codes; a side in which
 * both are alike stays. */
void kv_tier_demote(const kv_at *at, kv_lane *lane, const kv_tiers *t,
                    int32_t i, int from, int to);

/* --- alphas --------------------------------------------------------------- */

/* What sorts entries into tiers (ref/parts/tiers.h): a tier has scores of alpha
 * / tokens and more. A method puts kv_alphas into its params, with rows for
 * what it asks in its table, and calls kv_open_alphas once, after
 * kv_open_tiers. Each head may have weights of its own, from a file, by which
 * its alphas are multiplied. */

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
                    "alpha of that tier: entries with scores below alpha / "   \
                    "tokens are in a lower tier; must be given with it",       \
                    .later = true),                                            \
      KV_SHARE_PARAM(share_, type, a.share[tier], "0", 0, 1,                   \
                     "share of that tier, as low_share", .later = true)
#define KV_ALPHA_WEIGHTS_PARAM(type, a)                                        \
  KV_FILE_PARAM("weights", type, a.file, KV_FILE_OPTIONAL, &kv_alphas_kind,    \
                "factors of each head's alphas: safetensors, weights "         \
                "[layers, KV heads, tiers], high tier first; default: 1",      \
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
