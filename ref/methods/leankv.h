/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of leankv as its open (ref/methods/leankv.c) has resolved
 * them, for it and its CUDA twin, and what follows from scores alone. Defaults
 * and sources stand in its table of parameters; an enum has the values of the
 * parameter named beside it.
 */
#ifndef KV_REF_METHODS_LEANKV_H
#define KV_REF_METHODS_LEANKV_H

#include "ref/ground/arith.h"
#include "ref/parts/tiers.h"

enum { PAPER, CODE };         /* variant */
enum { HEAD, LAYER, STATIC }; /* sparsity */
enum { HIGH = KV_TIER_HIGH, LOW = KV_TIER_LOW, GONE, TIERS = GONE }; /* tiers */

typedef struct params {
  int variant, sparsity; /* of the enums above */
  int window;            /* newest tokens, always in the high tier */
  int queries;           /* last ones of the prompt that count; 0: all */
  float alpha[TIERS];    /* a tier has scores of alpha / tokens and more */
  int32_t share[TIERS];  /* of sparsity=static, in units of 2^-20 */
  kv_tiers tiers;
} params;

/* One step's decision: the entry that leaves the high tier for the low one, and
 * the one that is dropped; -1: none. Both may be the same: it is dropped. */
typedef struct decision {
  int demote, prune;
} decision;

/* The least score of a tier among n tokens: alpha / n, at most 1. Where there
 * is one tier, that of the low one, below which entries are dropped. */
KV_FN float kv_lean_threshold(const params *o, int tier, int n) {
  float t = kv_div(o->alpha[kv_one_tier(&o->tiers) ? LOW : tier], (float)n);
  return kv_min(t, 1.0f);
}

/* Entries of tokens below this one are judged, younger ones are the window.
 * step: tokens seen; first: the first query that counts; ahead: for the token
 * that comes next (the authors' code, while decoding): 0 until `window` queries
 * count. */
KV_FN int kv_lean_bound(const params *o, int step, int first, bool ahead) {
  int bound = step - o->window;
  if (ahead) bound = first <= bound ? bound + 1 : 0;
  return bound > 0 ? bound : 0;
}

/* How many queries that count have seen token id: its own is one of them in the
 * code. */
KV_FN int kv_lean_seen(const params *o, int step, int first, int id) {
  int from = id + (o->variant == PAPER);
  return step - (from > first ? from : first);
}

/* The tier of a score against thresholds of n tokens. is_low: it is in the low
 * one already, and no way leads back. */
KV_FN int kv_lean_tier(const params *o, float score, int n, bool is_low) {
  if (score < kv_lean_threshold(o, LOW, n)) return GONE;
  return is_low || score < kv_lean_threshold(o, HIGH, n) ? LOW : HIGH;
}

/* The n of an entry's thresholds: tokens seen or, in the paper's prompt, those
 * that the entry's own query saw. */
KV_FN int kv_lean_of(const params *o, int step, int id, bool prompt) {
  return prompt && o->variant == PAPER ? id + 1 : step;
}

/* Entries of a tier before the window by sparsity=static, rounded up, so that
 * the first token is not lost; tokens: how many ever stood before it. */
KV_FN int kv_lean_most(const params *o, int tier, int tokens) {
  if (tier == LOW && kv_one_tier(&o->tiers)) return 0;
  return (int)(((int64_t)tokens * o->share[tier] + (1 << 20) - 1) >> 20);
}

/* The decision by Algorithm 1 of the paper. score: of all entries; high, low:
 * the thresholds; c: the entry that leaves the window; least_high and
 * least_low: the entries of least score of the high tier with c and of the low
 * one without it, -1: there is none. */
KV_FN decision kv_lean_paper(const float *score, float high, float low, int c,
                             int least_high, int least_low) {
  decision d = {-1, -1};
  if (score[c] >= high) {
    if (score[least_high] < low)
      d.prune = least_high;
    else if (score[least_high] < high)
      d.demote = least_high;
  } else if (score[c] >= low) {
    d.demote = c;
    if (least_low >= 0 && score[least_low] < low) d.prune = least_low;
  } else {
    d.prune = c;
  }
  return d;
}

/* The same by the authors' kernel, which knows no c; least_high may be -1, too.
 */
KV_FN decision kv_lean_code(const float *score, float high, float low,
                            int least_high, int least_low) {
  decision d = {-1, -1};
  if (least_high < 0) return d;
  float h = score[least_high];
  bool lower = least_low < 0 || h < score[least_low];
  if (h < low && lower) {
    d.prune = least_high;
  } else if (h < high) {
    d.demote = least_high;
    if (least_low >= 0 && score[least_low] < low) d.prune = least_low;
  }
  return d;
}

/* The same by sparsity=static: of the tiers, which hold held[] entries and may
 * hold most[], one entry at most moves on. */
KV_FN decision kv_lean_counts(const params *o, const float *score,
                              const int *held, const int *most, int least_high,
                              int least_low) {
  decision d = {-1, -1};
  bool more = held[HIGH] > most[HIGH];
  if (more && kv_one_tier(&o->tiers)) d.prune = least_high;
  if (kv_one_tier(&o->tiers)) return d;
  if (more) d.demote = least_high;
  if (held[LOW] + more <= most[LOW]) return d;
  bool other =
      least_low >= 0 && (!more || !(score[least_high] < score[least_low]));
  d.prune = other ? least_low : d.demote;
  return d;
}

#endif
