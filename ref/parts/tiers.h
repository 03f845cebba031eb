/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiers of precision in one lane: important entries are stored in many bits,
 * others in few. A method puts kv_tiers into its params, with rows for bits
 * (KV_TIER_CHOICES) and groups in its table, and calls kv_open_tiers once. Then
 * it only says which tier each entry goes into; 0 is the highest. Codes are
 * those of format "token" by the rule unrounded (ref/FORMATS.md), as in LeanKV;
 * 16 bits leave a side uncompressed. If two neighbouring tiers hold a side
 * alike, they share one coding.
 */
#ifndef KV_REF_TIERS_H
#define KV_REF_TIERS_H

#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/parts/parts.h"

/* Tiers that a method may have, the highest first. */
enum { KV_TIER_HIGH, KV_TIER_1, KV_TIER_2, KV_TIER_LOW, KV_TIER_COUNT };
enum { KV_TIER_K, KV_TIER_V, KV_TIER_SIDES };
enum { KV_TIER_WIDTHS = 5 }; /* number of widths: 16, 8, 4, 2 and 1 bits */
/* The choices for the bits of K and of V; an optional tier also has none. */
#define KV_TIER_CHOICES                                                        \
  "k16v16|k16v8|k16v4|k16v2|k16v1|k8v16|k8v8|k8v4|k8v2|k8v1|k4v16|k4v8|k4v4|"  \
  "k4v2|k4v1|k2v16|k2v8|k2v4|k2v2|k2v1|k1v16|k1v8|k1v4|k1v2|k1v1"
#define KV_TIER_CHOICES_OR_NONE KV_TIER_CHOICES "|none"
enum { KV_TIER_NONE = KV_TIER_WIDTHS * KV_TIER_WIDTHS };

/* In a method's params. */
typedef struct kv_tiers {
  /* Parameters, by the enum above. bits: the value of a KV_TIER_CHOICES,
   * KV_TIER_WIDTHS * (index of K's width) + index of V's, where 0 is 16 bits,
   * or KV_TIER_NONE. groups: scales in a row; 1 in middle tiers. */
  int bits[KV_TIER_COUNT];
  int groups[KV_TIER_COUNT][KV_TIER_SIDES];
  /* Set by kv_open_tiers: how many tiers there are (neighbours that hold both
   * sides alike are one); then for each the first and the last of the requested
   * tiers, by the enum above, that it stands for. */
  int n, first[KV_TIER_COUNT], last[KV_TIER_COUNT];
  int coding[KV_TIER_COUNT][KV_TIER_SIDES]; /* index of needs.coding; KV_SAME:
                                               uncompressed */
  kv_minmax how[KV_TIER_COUNT][KV_TIER_SIDES]; /* its settings */
} kv_tiers;

/* In open: adds the codings to needs. A tier with more bits than the one above
 * it gets as many as that. KV_REFUSED: groups do not divide a row. t is in the
 * method's params: codings point to it. */
kv_rc kv_open_tiers(const kv_shape *shape, const char *method, kv_tiers *t,
                    kv_needs *needs, kv_err *e);

/* The tier of entry i; 0 if it was never coded. */
int kv_tier_of(const kv_at *at, const kv_lane *lane, const kv_tiers *t, int i);
/* Index of the first of the lane's last entries that tier 0 has not coded yet;
 * lane->n: none. */
int kv_tier_first_new(const kv_lane *lane, const kv_tiers *t);
/* In a compression: puts an entry that was never coded into a tier. A scale
 * that is not finite is a fault of the lane. */
void kv_tier_code(const kv_at *at, kv_lane *lane, const kv_tiers *t, int32_t i,
                  int tier);
/* The same from a tier into a lower one, coded from its codes; a side that is
 * alike in both is not changed. */
void kv_tier_demote(const kv_at *at, kv_lane *lane, const kv_tiers *t,
                    int32_t i, int from, int to);

/* Sorts entries into tiers: a tier holds scores of at least alpha / tokens. A
 * method puts kv_alphas into its params, with rows for its parameters in its
 * table, and calls kv_open_alphas once, after kv_open_tiers. Each head may have
 * its own weights, from a file, which multiply its alphas. */

/* In a method's params. */
typedef struct kv_alphas {
  /* Parameters; arrays by the number of the requested tier: */
  kv_file file;                 /* kv_alphas_kind: heads' weights */
  float asked[KV_TIER_COUNT];   /* alpha; NaN: not given */
  int32_t share[KV_TIER_COUNT]; /* of all entries, in units of 2^-20, if shares
                                   say what a tier holds */
  /* Set by kv_open_alphas, for the existing tiers. One that stands for several
   * requested tiers has the alpha of the lowest, the share of the highest: */
  float of[KV_TIER_COUNT];
  int32_t most[KV_TIER_COUNT];
  int weight[KV_TIER_COUNT]; /* index of its weight among its head's */
  int weights;               /* weights of a head; 0: there is no file */
} kv_alphas;

/* The file: tensor `weights` [layers, KV heads, tiers], F32, F16 or BF16. */
extern const kv_asset_kind kv_alphas_kind;

/* Rows of a table. tier: KV_TIER_1 or KV_TIER_2, an optional tier; t, a: the
 * members of the method's params. */
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

/* In open. KV_REFUSED: alphas that rise towards lower tiers, by themselves or
 * in a head; shares of more than all; a middle tier without alpha or the
 * reverse; a file for another number of tiers. */
kv_rc kv_open_alphas(const kv_shape *shape, const char *method,
                     const kv_tiers *t, kv_alphas *a, kv_err *e);

/* The weights of a KV head, in the file's tensor `all`; NULL: no file. */
KV_FN const float *kv_alpha_weights(const kv_alphas *a, const void *all,
                                    const kv_shape *s, int layer, int kv_head) {
  if (!a->weights) return NULL;
  return (const float *)all + (layer * s->n_kv_heads + kv_head) * a->weights;
}

/* The alpha of a tier in a head with these weights; NULL: all are 1. */
KV_FN float kv_alpha_of(const kv_alphas *a, const float *weights, int tier) {
  return weights ? kv_mul(a->of[tier], weights[a->weight[tier]]) : a->of[tier];
}

/* The smallest score of a tier among n tokens: alpha / n, at most 1. */
KV_FN float kv_alpha_threshold(const kv_alphas *a, const float *weights,
                               int tier, int n) {
  return kv_min(kv_div(kv_alpha_of(a, weights, tier), (float)n), 1.0f);
}

#endif
