/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of leankv, shared with its CUDA twin (ref/lane/params.h), and
 * decisions that follow from scores alone. Tier 0 is the high one; each further
 * tier has fewer bits.
 */
#ifndef KV_REF_METHODS_LEANKV_H
#define KV_REF_METHODS_LEANKV_H

#include "ref/lane/params.h"
#include "ref/parts/tiers.h"

enum { PAPER, CODE };                                 /* variant */
enum { HEAD, LAYER, STATIC };                         /* sparsity */
enum { GONE = KV_TIER_COUNT, TIERS = KV_TIER_COUNT }; /* below all tiers */

#define PARAMS(P)                                                              \
  P(PART, kv_alphas alphas,                                                    \
    KV_REAL_PARAM("alpha_l", params, alphas.asked[KV_TIER_LOW], "0.02", 0, 16, \
                  "entries with scores below alpha_l / tokens are dropped; "   \
                  "at most alpha_h; 0.02 as in the paper for Llama-3-8B",      \
                  .knob = KV_KNOB_LESS, .grid = 0.001))                        \
  P(ROW,                                                                       \
    KV_REAL_PARAM("alpha_h", params, alphas.asked[KV_TIER_HIGH], "1", 0, 16,   \
                  "entries with scores below alpha_h / tokens are in the low " \
                  "tier; 1 as in the paper for Llama-3"))                      \
  P(INT, window, "64", 1, 1 << 22, "tokens",                                   \
    "newest tokens, always in the high tier; 64 as in the paper")              \
  P(PART, kv_tiers tiers,                                                      \
    KV_CHOICE_PARAM("high", params, tiers.bits[KV_TIER_HIGH], "k8v4",          \
                    KV_TIER_CHOICES,                                           \
                    "bits of the high tier; K8V4 as in the paper"))            \
  P(ROW, KV_CHOICE_PARAM("low", params, tiers.bits[KV_TIER_LOW], "k4v2",       \
                         KV_TIER_CHOICES,                                      \
                         "bits of the low tier, at most those of high; the "   \
                         "same: no low tier; K4V2 as in the paper"))           \
  P(ROW, GROUPS("high_k_groups", KV_TIER_HIGH, KV_TIER_K,                      \
                "groups per key; 1 as in the paper"))                          \
  P(ROW, GROUPS("high_v_groups", KV_TIER_HIGH, KV_TIER_V,                      \
                "groups per value; 1 as in the paper"))                        \
  P(ROW, GROUPS("low_k_groups", KV_TIER_LOW, KV_TIER_K,                        \
                "groups per key; 1 as in the paper"))                          \
  P(ROW, GROUPS("low_v_groups", KV_TIER_LOW, KV_TIER_V,                        \
                "groups per value; 1 as in the paper"))                        \
  P(CHOICE, variant, "code", "paper|code",                                     \
    "the paper's Algorithm 1 or the authors' kernel")                          \
  P(INT, queries, NULL, 0, 1 << 22, "queries",                                 \
    "last prompt queries that count, 0: all; default 0 (paper), 64 (code)")    \
  P(CHOICE, sparsity, "head", "head|layer|static",                             \
    "what thresholds size: each head (paper), or a layer, with equal heads; "  \
    "static: high_share and low_share size each head")                         \
  P(ROW,                                                                       \
    KV_SHARE_PARAM(                                                            \
        "high_share", params, alphas.share[KV_TIER_HIGH], "0.5", 0, 1,         \
        "with sparsity=static: share of the tokens before the window in the "  \
        "high tier; 0.5: half are dropped, as in the paper's Figure 8"))       \
  P(ROW, KV_SHARE_PARAM("low_share", params, alphas.share[KV_TIER_LOW], "0",   \
                        0, 1, "the same for the low tier"))                    \
  P(ROW, KV_MIDDLE_TIER_PARAMS(params, tiers, alphas, KV_TIER_1, "middle_1",   \
                               "alpha_1", "share_1"))                          \
  P(ROW, KV_MIDDLE_TIER_PARAMS(params, tiers, alphas, KV_TIER_2, "middle_2",   \
                               "alpha_2", "share_2"))                          \
  P(ROW, KV_ALPHA_WEIGHTS_PARAM(params, alphas))
KV_PARAMS(PARAMS);

/* One step's decision: entries, and the tier into which each goes. At most one
 * is GONE; the others move to a lower tier. */
typedef struct decision {
  int n, entry[TIERS], to[TIERS];
} decision;

KV_FN void kv_lean_move(decision *d, int entry, int to) {
  d->entry[d->n] = entry;
  d->to[d->n++] = to;
}

/* Tokens below this one are judged; younger ones are the window. step: tokens
 * seen; first: the first query that counts; ahead: for the next token (the
 * authors' code, while decoding): 0 until `window` queries count. */
KV_FN int kv_lean_bound(const params *o, int step, int first, bool ahead) {
  int bound = step - o->window;
  if (ahead) bound = first <= bound ? bound + 1 : 0;
  return bound > 0 ? bound : 0;
}

/* How many counting queries have seen token id; in the code its own is one. */
KV_FN int kv_lean_seen(const params *o, int step, int first, int id) {
  int from = id + (o->variant == PAPER);
  return step - (from > first ? from : first);
}

/* The n of an entry's thresholds: tokens seen or, in the paper's prompt, tokens
 * that the entry's own query saw. */
KV_FN int kv_lean_of(const params *o, int step, int id, bool prompt) {
  return prompt && o->variant == PAPER ? id + 1 : step;
}

/* Entries of a tier before the window with sparsity=static, rounded up so that
 * the first token is not lost. tokens: tokens so far before the window. */
KV_FN int kv_lean_most(const params *o, int tier, int tokens) {
  return (int)(((int64_t)tokens * o->alphas.most[tier] + (1 << 20) - 1) >> 20);
}

/* The tier of a score, from the entry's own tier down: entries never move up.
 * floor: the threshold of each of the `tiers`. */
KV_FN int kv_lean_tier(int tiers, const float *floor, float score, int from) {
  for (int t = from; t < tiers; t++)
    if (score >= floor[t]) return t;
  return GONE;
}

/* The decision by Algorithm 1 of the paper. score: of all entries; floor: as
 * above; c: the entry that leaves the window; least: the entry of least score
 * of each tier, with c in the high tier; -1: none. */
KV_FN decision kv_lean_paper(int tiers, const float *score, const float *floor,
                             int c, const int *least) {
  decision d = {0, {0}, {0}};
  int of = kv_lean_tier(tiers, floor, score[c], 0);
  if (of > 0) kv_lean_move(&d, c, of);
  if (of == GONE || least[of] < 0) return d;
  int v = least[of], to = kv_lean_tier(tiers, floor, score[v], of);
  if (to > of) kv_lean_move(&d, v, to);
  return d;
}

/* The same by the authors' kernel, which has no c. x moves down: into the next
 * tier, whose least then moves on instead, or past that tier. */
KV_FN decision kv_lean_code(int tiers, const float *score, const float *floor,
                            const int *least) {
  decision d = {0, {0}, {0}};
  int x = least[0];
  if (x < 0 || score[x] >= floor[0]) return d;
  for (int t = 1; t < tiers; t++) {
    int l = least[t];
    if (score[x] < floor[t] && (l < 0 || score[x] < score[l])) continue;
    kv_lean_move(&d, x, t);
    if (l < 0 || score[l] >= floor[t]) return d;
    x = l;
  }
  kv_lean_move(&d, x, GONE);
  return d;
}

/* The same with sparsity=static: at most one entry leaves each tier, which
 * holds held[] entries and may hold most[]. Of equal scores the tier's own
 * entry leaves. */
KV_FN decision kv_lean_counts(int tiers, const float *score, const int *held,
                              const int *most, const int *least) {
  decision d = {0, {0}, {0}};
  int x = -1; /* on its way down */
  for (int t = 0; t < tiers; t++) {
    int l = least[t];
    bool full = held[t] + (x >= 0) > most[t];
    if (full && (l < 0 || (x >= 0 && score[x] < score[l]))) continue;
    if (x >= 0) kv_lean_move(&d, x, t);
    x = full ? l : -1;
  }
  if (x >= 0) kv_lean_move(&d, x, GONE);
  return d;
}

#endif
