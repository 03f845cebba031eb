/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes of a window of queries. Contract: ref/parts/votes.h. Cost: logits of
 * window * heads * n * d, two sorts of n a query and, where temperatures are
 * looked for, up to 60 rows of exponentials.
 */
#include "ref/parts/votes.h"
#include "ref/kernels/kernels.h"
#include <string.h>

enum { ROWS = 8 }; /* queries whose logits are made together */

size_t kv_poll_work(const kv_shape *s, const kv_voters *o) {
  size_t rows = ROWS * (size_t)kv_group(s) + 24;
  size_t keys = o->adapter == KV_ADAPT_RKV ? kv_similar_work(s) : 0;
  return keys + KV_KEY_LOGITS(s->d) + rows * (size_t)s->n_tokens * 4;
}

static kv_poll open_poll(const kv_at *at, const kv_lane *lane,
                         const kv_voters *o, int n, const int32_t *entry) {
  kv_work *w = at->work;
  kv_poll p = {.n = n,
               .entry = entry,
               .votes = KV_TAKE(w, int32_t, n),
               .mass = KV_TAKE(w, int64_t, n),
               .z = KV_TAKE(w, float, n),
               .g = KV_TAKE(w, float, n),
               .less = KV_TAKE(w, float, n),
               .e = KV_TAKE(w, float, n),
               .order = KV_TAKE(w, int32_t, n),
               .spare = KV_TAKE(w, int32_t, n)};
  memset(p.votes, 0, (size_t)n * sizeof *p.votes);
  memset(p.mass, 0, (size_t)n * sizeof *p.mass);
  if (o->adapter == KV_ADAPT_RKV) {
    kv_spare how = kv_voters_spare(o);
    float *key = kv_lane_keys(at, lane);
    p.repeated = kv_repeated(at, lane->n, key, &how);
  }
  return p;
}

/* The first n of x sorted by falling value, less the largest. */
static kv_sorted sort(const kv_poll *p, const float *x, int n) {
  for (int i = 0; i < n; i++) p->order[i] = i;
  kv_order(x, n, p->order, p->spare);
  for (int i = 0; i < n; i++)
    p->less[i] = kv_sub(x[p->order[i]], x[p->order[0]]);
  return (kv_sorted){n, p->less};
}

/* g of rkv: what a query's own share leaves of what is there twice. */
static void weigh_repeated(const kv_at *at, const kv_voters *o,
                           const kv_poll *p, int n) {
  int64_t sum = 0;
  memcpy(p->g, p->z, (size_t)n * sizeof *p->g);
  kv_probabilities(at, n, p->g);
  float least = 0;
  for (int i = 0; i < n; i++) {
    p->g[i] = kv_rkv_worth(o, p->g[i], p->repeated[p->entry[i]]);
    least = i == 0 ? p->g[i] : kv_min(least, p->g[i]);
  }
  for (int i = 0; i < n; i++) {
    p->g[i] = kv_sub(p->g[i], least);
    sum += kv_fix(p->g[i]);
  }
  float all = kv_unfix(sum);
  for (int i = 0; i < n; i++) {
    float x = all > 0 ? kv_div(p->g[i], all) : 0;
    p->g[i] = kv_log(kv_add(x, 1e-10f));
  }
}

static const float *adapt(const kv_at *at, const kv_voters *o, const kv_poll *p,
                          int n) {
  switch (o->adapter) {
  case KV_ADAPT_SNAPKV:
    kv_pool_max(p->z, n, o->kernel, p->g);
    return p->g;
  case KV_ADAPT_RKV:
    weigh_repeated(at, o, p, n);
    return p->g;
  default:
    return p->z;
  }
}

static float temperature_of(const kv_at *at, const kv_voters *o,
                            const kv_poll *p, int n) {
  int64_t mass, all = kv_sorted_exp(at, sort(p, p->z, n), 1, p->e);
  int k = kv_sorted_prefix(n, p->e, all, o->p, &mass);
  float want = kv_div(kv_unfix(mass), kv_unfix(all));
  return kv_calibrate(at, sort(p, p->g, n), k, want, o->calibrate, p->e, NULL);
}

/* One query, which sees the first n of the poll's entries: z is made. */
static void vote(const kv_at *at, const kv_voters *o, const kv_poll *p, int n,
                 float *temperature) {
  const float *g = adapt(at, o, p, n);
  float t = 1.0f;
  if (g != p->z && o->calibrate != KV_CALIBRATE_NONE) {
    if (kv_voters_calibrate(o, *temperature))
      *temperature = temperature_of(at, o, p, n);
    t = *temperature;
  }
  int64_t mass, all = kv_sorted_exp(at, sort(p, g, n), t, p->e);
  int k = kv_sorted_prefix(n, p->e, all, o->p, &mass);
  float each = kv_div(1.0f, kv_unfix(all));
  for (int i = 0; i < n; i++) {
    p->votes[p->order[i]] += i < k;
    p->mass[p->order[i]] += kv_fix(kv_mul(p->e[i], each));
  }
}

/* z of one query from logits of its heads, [heads][lds] by entry; returns how
 * many it sees. A logit past the largest number counts as 0: attention that
 * meets it ends the cell. */
static int largest_of_heads(const kv_lane *lane, const kv_poll *p, int token,
                            const float *s, size_t lds) {
  int n = 0;
  for (; n < p->n && (int)lane->id[p->entry[n]] <= token; n++) {
    float best = 0;
    for (int h = 0; h < lane->queries; h++) {
      float x = s[(size_t)h * lds + (size_t)p->entry[n]];
      if (!kv_finite(x)) x = 0;
      best = h == 0 ? x : kv_max(best, x);
    }
    p->z[n] = best;
  }
  return n;
}

kv_poll kv_poll_ask(const kv_at *at, const kv_lane *lane, const kv_voters *o,
                    int n, const int32_t *entry, const float *ring,
                    float *temperature) {
  kv_poll p = open_poll(at, lane, o, n, entry);
  size_t lds = (size_t)lane->n, heads = (size_t)lane->queries;
  size_t row = heads * (size_t)at->shape->d, used = at->work->used;
  float *s = KV_TAKE(at->work, float, ROWS *heads *lds);
  for (int r = 0; r < o->window; r++) {
    int left = o->window - r, token = kv_voter(o, at->step, r);
    if (r % ROWS == 0)
      kv_key_logits(at, lane, (left < ROWS ? left : ROWS) * lane->queries,
                    ring + (size_t)r * row, 0, lane->n, at->shape->scale, s,
                    lds);
    int seen =
        token < 0 ? 0
                  : largest_of_heads(lane, &p, token,
                                     s + (size_t)(r % ROWS) * heads * lds, lds);
    if (seen > 0) vote(at, o, &p, seen, &temperature[r]);
  }
  at->work->used = used;
  return p;
}
