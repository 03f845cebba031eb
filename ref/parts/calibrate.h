/* SPDX-License-Identifier: Apache-2.0
 *
 * Temperatures: a scorer g of logits changes how fast probability falls, so a
 * share p of it means another number of tokens than it does for attention
 * itself. Calibration looks, for each query, for the T at which the same number
 * of tokens holds the same mass:
 *
 *   S     = softmax(z), k = the length of its least prefix of mass p
 *   S^(T) = softmax(g(z) / T)
 *   T such that M_k(S^(T)) = M_k(S), M_k being the mass of the k most probable
 *
 * (Hard-KV's Problem 1. Dividing z by T before g instead, the paper's Solution
 * 1, is the same function where g is a maximum of neighbours, so Solution 2
 * stands for both.) The ranking of g(z) never changes, so one set of k serves
 * every T: where T is larger its mass is smaller. kv_calibrate is the whole
 * search for a row in host memory; the twin on a device makes the same steps by
 * kv_search_begin and kv_search_next.
 *
 *   bisect:   geometric bisection of [0.001, 1000], at most 60 steps, until the
 *             masses differ by 1e-6 at most
 *   gradient: Adam on T from 0.5 with a rate of 0.01 and moments .9 and .999,
 *             the loss being the difference of the masses, at most 50 steps, T
 *             kept within [0.001, 10], until they differ by 0.01 at most
 *   shipped:  what the authors' bisection does: halves of [0.001, 1], until the
 *             masses differ by 0.01 at most. Its callers give it another set of
 *             k and another mass (votes.h). Theirs goes on with all rows until
 *             the last one is near, and without an end where none is
 *
 * Where no T gives the mass (ties of a pooled row) T is where the search ended,
 * and met is false. Where k is all of the row, or all of g(z) are equal, T is
 * 1. To the bit: masses are RN(RN32(sum) / RN32(sum of all)) of RN(e * 2^40),
 * e = expm((g - the largest) / T), which no order changes; bisect looks at T =
 * RN(sqrt(RN(low * high))), which becomes the new low where the mass is above
 * the wanted one, else the new high (shipped: RN(RN(low + high) * 0.5)); every
 * other operation is rounded once, in the order written.
 */
#ifndef KV_REF_CALIBRATE_H
#define KV_REF_CALIBRATE_H

#include "ref/parts/parts.h"

/* Which search; the values of the parameter `calibrate`. */
enum {
  KV_CALIBRATE_NONE, /* no search: T is 1, or what kv_voters_rule says */
  KV_CALIBRATE_BISECT,
  KV_CALIBRATE_GRADIENT,
  KV_CALIBRATE_SHIPPED /* of as_shipped alone; no value of the parameter */
};

/* What a row of probabilities has at some T. */
typedef struct kv_prefix {
  float mass;  /* of its first k */
  float slope; /* of that in T; of KV_CALIBRATE_GRADIENT alone */
} kv_prefix;

/* kv_prefix.slope at T = t, mass being that of the first k. near, all: the sums
 * of p u over the first k and over all, of p the probabilities and
 * u = (the largest g - g) / T. */
KV_FN float kv_prefix_slope(float near, float all, float mass, float t) {
  return kv_div(kv_fma(-all, mass, near), t);
}

/* A search in progress. */
typedef struct kv_search {
  int rule, steps;        /* KV_CALIBRATE_x but NONE; steps done */
  float t;                /* the T to look at next, or the answer */
  bool met;               /* the masses agree there, or no T was looked for */
  float low, high;        /* bisect */
  float m, v, m_by, v_by; /* gradient: moments, and 1 - their sums of weights */
} kv_search;

/* Of the bisections: the middle of the range, where to look next. */
KV_FN float kv_search_middle(const kv_search *s) {
  if (s->rule == KV_CALIBRATE_SHIPPED)
    return kv_mul(kv_add(s->low, s->high), 0.5f);
  return kv_sqrt(kv_mul(s->low, s->high));
}

/* A search by the rule; its t is the first T to look at. */
KV_FN kv_search kv_search_begin(int rule) {
  kv_search s = {rule, 0, 0.5f, false, 0.001f, 1000.0f, 0, 0, 1.0f, 1.0f};
  if (rule == KV_CALIBRATE_SHIPPED) s.high = 1.0f;
  if (rule != KV_CALIBRATE_GRADIENT) s.t = kv_search_middle(&s);
  return s;
}

/* Of the bisections: takes the half of the range that holds the T wanted, over
 * being the mass found less the one wanted, and goes to its middle. False: that
 * is one of its ends, and t stays. */
KV_FN bool kv_search_halve(kv_search *s, float over) {
  float middle;
  if (over > 0)
    s->low = s->t;
  else
    s->high = s->t;
  middle = kv_search_middle(s);
  if (!(middle > s->low) || !(middle < s->high)) return false;
  s->t = middle;
  return true;
}

/* Of the gradient: one step of Adam. */
KV_FN void kv_search_slide(kv_search *s, float over, float slope) {
  float g = slope, by;
  if (!(over > 0)) g = -slope;
  s->m = kv_fma(0.9f, s->m, kv_mul(0.1f, g));
  s->v = kv_fma(0.999f, s->v, kv_mul(0.001f, kv_mul(g, g)));
  s->m_by = kv_mul(s->m_by, 0.9f);
  s->v_by = kv_mul(s->v_by, 0.999f);
  by = kv_sqrt(kv_div(s->v, kv_sub(1.0f, s->v_by)));
  by = kv_div(kv_div(s->m, kv_sub(1.0f, s->m_by)), kv_add(by, 1e-8f));
  s->t = kv_sub(s->t, kv_mul(0.01f, by));
  s->t = kv_min(kv_max(s->t, 0.001f), 10.0f);
}

/* Goes on from `at`, what was found at s->t; want: the mass that is wanted.
 * True: look at the new s->t; false: s->t is the answer, which s->met says
 * fits. */
KV_FN bool kv_search_next(kv_search *s, kv_prefix at, float want) {
  bool halve = s->rule != KV_CALIBRATE_GRADIENT;
  float over = kv_sub(at.mass, want), near = 0.01f;
  if (s->rule == KV_CALIBRATE_BISECT) near = 1e-6f;
  s->met = over <= near && over >= -near;
  if (s->met || ++s->steps >= (halve ? 60 : 50)) return false;
  if (halve) return kv_search_halve(s, over);
  kv_search_slide(s, over, at.slope);
  return true;
}

/* --- calibrate.c: rows of a lane, on the host ----------------------------- */

/* A row g, as differences from its largest. */
typedef struct kv_scores_less {
  int n, k;           /* length; how many are to have the mass */
  const float *less;  /* [n] g - the largest g, in any order */
  const float *first; /* [k] of these, in any order */
} kv_scores_less;

/* The finished search, by `rule`, for the T of a row at which its first k have
 * the mass `want`, 0 .. 1. Cannot fail; where no T fits, met is false. */
kv_search kv_calibrate(const kv_at *at, kv_scores_less row, float want,
                       int rule);

#endif
