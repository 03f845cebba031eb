/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes of a window: each of its queries votes for the fewest entries that hold
 * a share p of the probability, as seen by an adapter g at a temperature T. T
 * makes that probability fall as fast as attention's own.
 *
 *   z[t][j] = max over query heads of their logits, softcap included; a logit
 *             that is not finite counts as 0
 *   S[t]    = softmax(z[t]), k = the length of its shortest prefix of mass p
 *   g[t]    = vanilla: z[t]
 *             snapkv:  max pool of z[t] over neighbours
 *             rkv:     log(RN(x / the sum of x) + 1e-10),
 *                      x = y - the least y, y = lambda S[t] - (1 - lambda) R,
 *                      R: R-KV's redundancy (similar.h) of all of the lane's
 *                      keys, or only of the poll's
 *             score:   a scorer's (scorers.h) score of entry j, for any query
 *   T[t]    = where the first k of softmax(g[t] / T) have the mass that the
 *             first k of S[t] have; 1 for vanilla, and without calibration
 *   votes   = the shortest prefix of softmax(g[t] / T[t]) of mass p, >= 1 entry
 *
 * A query sees the entries of the poll that are not younger than it; neighbours
 * are neighbours within the poll.
 *
 * as_shipped, what the authors' code does: every query sees all entries of the
 * poll; all entries equal to a prefix's last one are in it; T is searched so
 * that the first k entries by place, not by g, hold p itself, by their
 * bisection; with the gradient it stays 0.5, where their optimiser begins.
 *
 * To the bit: logits are arithmetic 1, S[t] is arithmetic 4 of z[t], y =
 * fma(-(1 - lambda), R, RN(lambda * S)), the sum of x RN32(sum of RN(x * 2^40))
 * * 2^-40. With e = expm(RN(RN(g - the largest g) / T)) and W = RN(e * 2^40), E
 * the sum of W, a prefix is the smallest number of entries by rule 2 on g, at
 * least 1, whose W add up to kv_share_of(E, p). An entry that a scorer protects
 * has its largest score. Sums of S, if requested: RN(RN(e * RN(1 / E)) * 2^40).
 *
 * No row is sorted: a prefix is found by narrowing among the entries close to
 * its end, and sums of weights are integers, which no order changes.
 */
#ifndef KV_REF_PARTS_VOTES_H
#define KV_REF_PARTS_VOTES_H

#include "ref/parts/parts.h"
#include "ref/parts/ring.h"
#include "ref/parts/similar.h"

/* --- calibration ---------------------------------------------------------- */

/* Temperatures: a scorer g of logits changes how fast probability falls, so a
 * share p of it covers another number of tokens than for attention itself.
 * Calibration searches, for each query, the T at which the same number of
 * tokens holds the same mass:
 *
 *   S     = softmax(z), k = the length of its shortest prefix of mass p
 *   S^(T) = softmax(g(z) / T)
 *   T such that M_k(S^(T)) = M_k(S); M_k: the mass of the k most probable
 *
 * (Hard-KV's Problem 1. Dividing z by T before g instead, the paper's Solution
 * 1, is the same function if g is a maximum of neighbours, so Solution 2 stands
 * for both.) The ranking of g(z) never changes, so one set of k serves every T:
 * its mass is smaller for larger T. kv_calibrate is the whole search for a row
 * in host memory; the twin on a device makes the same steps by kv_search_begin
 * and kv_search_next.
 *
 *   bisect:   geometric bisection of [0.001, 1000], at most 60 steps, until the
 *             masses differ by at most 1e-6
 *   gradient: Adam on T from 0.5 with a rate of 0.01 and moments .9 and .999;
 *             the loss is the difference of the masses; at most 50 steps, T
 *             kept within [0.001, 10], until they differ by at most 0.01
 *   shipped:  the authors' bisection: halves of [0.001, 1], until the masses
 *             differ by at most 0.01. Its callers pass another set of k and
 *             another mass (see above). Theirs continues with all rows until
 *             the last one is near, and forever if none gets near
 *
 * If no T gives the mass (ties of a pooled row), T is where the search ended,
 * and met is false. If k is the whole row, or all of g(z) are equal, T is 1. To
 * the bit: masses are RN(RN32(sum) / RN32(sum of all)) of RN(e * 2^40), e =
 * expm((g - the largest) / T), which no order changes. bisect tries T =
 * RN(sqrt(RN(low * high))), which becomes the new low if the mass is above the
 * wanted one, else the new high (shipped: RN(RN(low + high) * 0.5)). Every
 * other operation is rounded once, in the order written. */

/* Which search; the values of the parameter `calibrate`. */
enum {
  KV_CALIBRATE_NONE, /* no search: T is 1, or what kv_voters_rule says */
  KV_CALIBRATE_BISECT,
  KV_CALIBRATE_GRADIENT,
  KV_CALIBRATE_SHIPPED /* only with as_shipped; no value of the parameter */
};

/* A row of probabilities at some T. */
typedef struct kv_prefix {
  float mass;  /* of its first k */
  float slope; /* its derivative in T; only with KV_CALIBRATE_GRADIENT */
} kv_prefix;

/* kv_prefix.slope at T = t; mass is that of the first k. near, all: the sums of
 * p u over the first k and over all; p: the probabilities, u = (the largest g -
 * g) / T. */
KV_FN float kv_prefix_slope(float near, float all, float mass, float t) {
  return kv_div(kv_fma(-all, mass, near), t);
}

/* A search in progress. */
typedef struct kv_search {
  int rule, steps;        /* KV_CALIBRATE_x except NONE; steps done */
  float t;                /* the T to try next, or the answer */
  bool met;               /* the masses agree there, or no search was needed */
  float low, high;        /* bisect */
  float m, v, m_by, v_by; /* gradient: moments, and 1 - their sums of weights */
} kv_search;

/* Bisections: the middle of the range, to try next. */
KV_FN float kv_search_middle(const kv_search *s) {
  if (s->rule == KV_CALIBRATE_SHIPPED)
    return kv_mul(kv_add(s->low, s->high), 0.5f);
  return kv_sqrt(kv_mul(s->low, s->high));
}

/* Begins a search by the rule; its t is the first T to try. */
KV_FN kv_search kv_search_begin(int rule) {
  kv_search s = {rule, 0, 0.5f, false, 0.001f, 1000.0f, 0, 0, 1.0f, 1.0f};
  if (rule == KV_CALIBRATE_SHIPPED) s.high = 1.0f;
  if (rule != KV_CALIBRATE_GRADIENT) s.t = kv_search_middle(&s);
  return s;
}

/* Bisections: keeps the half of the range that contains the wanted T and moves
 * to its middle; over: the mass found minus the wanted one. False: the middle
 * is an end of the range, and t is unchanged. */
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

/* Gradient: one step of Adam. */
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

/* Continues from `at`, the result at s->t; want: the wanted mass. True: try the
 * new s->t. False: s->t is the answer; s->met says whether it fits. */
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

/* --- calibration of rows of a lane, on the host --------------------------- */

/* A row g, as differences from its largest. */
typedef struct kv_scores_less {
  int n, k;           /* length; how many must have the mass */
  const float *less;  /* [n] g - the largest g, in any order */
  const float *first; /* [k] of these, in any order */
} kv_scores_less;

/* The finished search, by `rule`, for the T of a row at which its first k have
 * the mass `want`, 0 .. 1. Cannot fail; if no T fits, met is false. */
kv_search kv_calibrate(const kv_at *at, kv_scores_less row, float want,
                       int rule);

/* Values of the members adapter, temperatures and redundant below. */
enum { KV_ADAPT_VANILLA, KV_ADAPT_SNAPKV, KV_ADAPT_RKV, KV_ADAPT_SCORE };
enum { KV_TEMPERATURES_FIRST, KV_TEMPERATURES_EVERY };
enum { KV_REDUNDANT_ALL, KV_REDUNDANT_READ };
enum { KV_POLL_ROWS = 8 }; /* queries whose logits are made together */

/* Parameters of a method that polls, in its params. */
typedef struct kv_voters {
  int window, kernel; /* last queries, which vote; width of snapkv's pool */
  int32_t p;          /* share * 2^20 */
  int adapter;        /* g, KV_ADAPT_x */
  int calibrate;      /* how T is found, KV_CALIBRATE_x */
  int temperatures; /* found once for each place of the window, or each time */
  float lambda, threshold; /* rkv: as above; kv_spare.least */
  int redundant;           /* rkv: R of which keys, KV_REDUNDANT_x */
  int as_shipped;          /* flag, as above */
  int shares;              /* flag: also compute sums of S */
} kv_voters;

/* Rows of a parameter table, for adapter rkv. `member` is the kv_voters in the
 * params struct `type`. */
#define KV_RKV_PARAMS(type, member)                                            \
  KV_REAL_PARAM("lambda", type, member.lambda, "0.07", 0, 1,                   \
                "share of the probability in rkv's score; 0.07 as in the "     \
                "authors' code"),                                              \
      KV_REAL_PARAM("threshold", type, member.threshold, "0.5", 0, 1,          \
                    "cosine above which rkv's keys are alike; 0.5 as in the "  \
                    "authors' code"),                                          \
      KV_CHOICE_PARAM("redundant", type, member.redundant, "all", "all|read",  \
                      "tokens that rkv compares keys with: all stored ones, "  \
                      "masked or not, as in the authors' code, or those that " \
                      "may be read; the paper is silent")

/* Must T be searched for a query? kept: the T that its place in the window had
 * before, 0: none. */
KV_FN bool kv_voters_search(const kv_voters *o, float kept) {
  return !(kept > 0) || o->temperatures == KV_TEMPERATURES_EVERY;
}

/* How to search, KV_CALIBRATE_x; with KV_CALIBRATE_NONE, T is *t. */
KV_FN int kv_voters_rule(const kv_voters *o, float *t) {
  bool fixed = o->as_shipped && o->calibrate == KV_CALIBRATE_GRADIENT;
  *t = fixed ? 0.5f : 1.0f;
  if (o->adapter == KV_ADAPT_VANILLA) *t = 1.0f;
  if (o->adapter == KV_ADAPT_VANILLA || fixed) return KV_CALIBRATE_NONE;
  if (o->as_shipped && o->calibrate == KV_CALIBRATE_BISECT)
    return KV_CALIBRATE_SHIPPED;
  return o->calibrate;
}

/* y of rkv; share: from S[t], repeated: from R. */
KV_FN float kv_rkv_worth(const kv_voters *o, float share, float repeated) {
  float rest = kv_sub(1.0f, o->lambda);
  return kv_fma(-rest, repeated, kv_mul(o->lambda, share));
}

/* What rkv's R spares: of keys above the threshold the later one, as in R-KV's
 * code, and nothing for a key like no other (rkv's fallback=none). */
KV_FN kv_spare kv_voters_spare(const kv_voters *o) {
  kv_spare how = {o->threshold, false, false};
  return how;
}

/* A poll: the entries in question and the queries' votes. entry and score are
 * the caller's; the other arrays are in the hook's workspace. Those from z to
 * spare are scratch, which a caller may use later. */
typedef struct kv_poll {
  int n;                /* entries */
  const int32_t *entry; /* [n] their indexes, ascending */
  int32_t *votes;       /* [n] queries that voted for each */
  int64_t *mass;        /* [n] sums of RN(probability * 2^40) as g sees it */
  int64_t *share;       /* [n] the same for S, if requested; else NULL */
  int looks;            /* steps of all searches for a temperature */
  float *z, *g, *less, *e, *near, *few; /* [n] rows of one query */
  int64_t *weight;
  int32_t *place, *order, *spare;
  const float *repeated; /* [lane->n], for rkv */
  const float *score;    /* [lane->n], for score */
} kv_poll;

/* Bytes of workspace beyond KV_WORK(n_tokens) for a poll: for needs.work. */
size_t kv_poll_work(const kv_shape *s, const kv_voters *o);
/* In a compression: polls the window's queries, ring[window][query heads][d]
 * (ref/parts/ring.h), about entries entry[n]. temperature: [window] in the
 * lane's state, 0 if none was found yet; receives what is found. score: with
 * KV_ADAPT_SCORE [lane->n], else NULL. Cannot fail: a logit that is not finite
 * counts as 0. */
kv_poll kv_poll_ask(const kv_at *at, const kv_lane *lane, const kv_voters *o,
                    int n, const int32_t *entry, const float *score,
                    const float *ring, float *temperature);

/* --- prefixes ------------------------------------------------------------- */

/* Finds prefixes of a row of scores with weights RN(e * 2^40), which fall with
 * them; remembers where such prefixes ended before. */
typedef struct kv_prefixes {
  const kv_at *at; /* for its kernels */
  float *value;    /* [n] scratch: gathered scores */
  int64_t *weight; /* [n] and their weights */
  int32_t *place;  /* [n] and their indexes; after a call the prefix */
  float reach;     /* the largest score minus the last one of a prefix: a guess
                      for the next call, at first 0 */
} kv_prefixes;

/* The shortest prefix of x[0..n), at least one element, in the order of
 * arithmetic 2, whose weights RN(e * 2^40) reach the share p20 * 2^-20 of
 * `all`, their sum; ties: with all elements equal to its last. Leaves its
 * indexes, ascending, in f->place and returns how many; *mass: the sum of its
 * weights. most: the largest of x. */
int kv_prefix_by_mass(kv_prefixes *f, const float *x, const float *e, int n,
                      float most, int64_t all, int32_t p20, bool ties,
                      int64_t *mass);
/* The first k of x[0..n), 1 <= k <= n, in the same way. */
void kv_prefix_by_count(kv_prefixes *f, const float *x, int n, float most,
                        int k);

#endif
