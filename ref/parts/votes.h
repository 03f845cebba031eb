/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes of a window: each of its queries votes for the fewest entries that hold
 * a share p of the probability as an adapter g sees it, at a temperature T that
 * makes that probability fall as fast as attention's own (calibrate.h).
 *
 *   z[t][j] = max over query heads of q_t . k_j * scale; not finite: 0
 *   S[t]    = softmax(z[t]), k = the length of its least prefix of mass p
 *   g[t]    = vanilla: z[t]
 *             snapkv:  max pool of z[t] over neighbours
 *             rkv:     log(RN(x / the sum of x) + 1e-10),
 *                      x = y - the least y, y = lambda S[t] - (1 - lambda) R,
 *                      R R-KV's redundancy (similar.h) of all of the lane's
 * keys T[t]    = where the first k of softmax(g[t] / T) hold what k of S[t]
 * hold; 1 of vanilla votes   = the least prefix of softmax(g[t] / T[t]) of mass
 * p, at least one
 *
 * A query sees the entries of the poll that are not younger than it. Its
 * neighbours are those of the poll.
 */
#ifndef KV_REF_PARTS_VOTES_H
#define KV_REF_PARTS_VOTES_H

#include "ref/parts/calibrate.h"
#include "ref/parts/similar.h"

enum { KV_ADAPT_VANILLA, KV_ADAPT_SNAPKV, KV_ADAPT_RKV };
enum { KV_TEMPERATURES_FIRST, KV_TEMPERATURES_EVERY };

/* Parameters of a method that polls. */
typedef struct kv_voters {
  int window, kernel;
  int32_t p; /* share * 2^20 */
  int adapter, calibrate;
  int temperatures; /* found once for each place of the window, or each time */
  float lambda, threshold;
} kv_voters;

/* The token whose query is at place `at` of a ring of the last queries when
 * `step` tokens were seen: the last one that is at mod window; below 0: none
 * is there yet. */
KV_FN int kv_voter(const kv_voters *o, int step, int at) {
  int back = step - 1 - at;
  return back < 0 ? -1 : step - 1 - back % o->window;
}

KV_FN bool kv_voters_calibrate(const kv_voters *o, float kept) {
  if (o->calibrate == KV_CALIBRATE_NONE) return false;
  return !(kept > 0) || o->temperatures == KV_TEMPERATURES_EVERY;
}

/* y of rkv. */
KV_FN float kv_rkv_worth(const kv_voters *o, float share, float repeated) {
  float rest = kv_sub(1.0f, o->lambda);
  return kv_fma(-rest, repeated, kv_mul(o->lambda, share));
}

KV_FN kv_spare kv_voters_spare(const kv_voters *o) {
  kv_spare how = {o->threshold, false, false};
  return how;
}

/* The entries that are asked about, ascending, and what is said. */
typedef struct kv_poll {
  int n;
  const int32_t *entry; /* [n] */
  int32_t *votes;       /* [n] */
  int64_t *mass;        /* [n] sums of RN(probability * 2^40) */
  float *z, *g, *less, *e;
  int32_t *order, *spare;
  const float *repeated; /* [lane->n], of rkv */
} kv_poll;

/* Workspace beyond KV_WORK(n_tokens) that a poll takes. */
size_t kv_poll_work(const kv_shape *s, const kv_voters *o);
/* Asks the window's queries about entries [n], of a hook's workspace. ring:
 * [window][query heads][d]; temperature: [window], 0 where none was found. */
kv_poll kv_poll_ask(const kv_at *at, const kv_lane *lane, const kv_voters *o,
                    int n, const int32_t *entry, const float *ring,
                    float *temperature);

#endif
