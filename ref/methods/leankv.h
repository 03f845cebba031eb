/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of leankv: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/leankv.c),
 * and what follows from scores alone.
 */
#ifndef KV_REF_METHODS_LEANKV_H
#define KV_REF_METHODS_LEANKV_H

#include "ref/ground/arith.h"
#include "ref/parts/tiers.h"

enum { PAPER, CODE };         /* variant */
enum { HEAD, LAYER, STATIC }; /* sparsity */
enum { HIGH = KV_TIER_HIGH, LOW = KV_TIER_LOW, GONE, TIERS = GONE };

typedef struct params {
  int variant, sparsity, window, queries;
  float alpha[TIERS];
  int32_t share[TIERS]; /* of sparsity=static, times 2^-20 */
  kv_tiers tiers;
} params;

/* One step's decision: the entry that leaves the high tier for the low one, and
 * the one that is dropped; -1: none. Both may be the same: it is dropped. */
typedef struct decision {
  int demote, prune;
} decision;

/* alpha / n of a tier, at most 1; one tier has what drops from it alone. */
KV_FN float kv_lean_threshold(const params *o, int tier, int n) {
  float t = kv_div(o->alpha[kv_one_tier(&o->tiers) ? LOW : tier], (float)n);
  return kv_min(t, 1.0f);
}

/* Entries below this token are judged, younger ones are the window. ahead: for
 * the token that comes next (the authors' code, while decoding). */
KV_FN int kv_lean_bound(const params *o, int step, int first, bool ahead) {
  int bound = step - o->window;
  if (ahead) bound = first <= bound ? bound + 1 : 0;
  return bound > 0 ? bound : 0;
}

/* Counted queries behind token id: its own is one of them in the code. */
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

/* Tokens that an entry's thresholds are of. */
KV_FN int kv_lean_of(const params *o, int step, int id, bool prompt) {
  return prompt && o->variant == PAPER ? id + 1 : step;
}

/* Entries of a tier before the window by sparsity=static, rounded up, so that
 * the first token is not lost; tokens: that ever were there. */
KV_FN int kv_lean_most(const params *o, int tier, int tokens) {
  if (tier == LOW && kv_one_tier(&o->tiers)) return 0;
  return (int)(((int64_t)tokens * o->share[tier] + (1 << 20) - 1) >> 20);
}

/* Algorithm 1 of the paper: c left the window; of the high tier, c in it, and
 * of the low tier, c not in it, the entries of least score. */
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

/* The authors' kernel: the entries of least score of both tiers, or -1. */
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

/* By counts: what each tier has too many of moves on, one entry at most. */
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
