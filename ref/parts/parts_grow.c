/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeated compression of the window methods; contract in ref/parts/grow.h. No
 * row votes twice, so the votes are one running sum an entry. Sums that are
 * kept between steps are charged.
 */
#include "ref/parts/grow.h"
#include <string.h>

enum { EVERY = 128 }; /* as in R-KV's decode-time SnapKV */

kv_rc kv_open_every(const char *method, int least, kv_grow_options *g,
                    kv_err *e) {
  if (g->grow == KV_GROW_YES && g->every != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: every=%d has no effect with grow=yes; leave it out or "
                   "write grow=no",
                   method, g->every);
  if (g->grow == KV_GROW_YES) return KV_OK;
  if (g->every == 0) g->every = least > EVERY ? least : EVERY;
  if (g->every < least)
    return kv_fail(e, KV_REFUSED,
                   "%s: every=%d is less than %s=%d, whose queries must all be "
                   "new; raise every or lower %s",
                   method, g->every, g->voters ? "voters" : "window", least,
                   g->voters ? "voters" : "window");
  return KV_OK;
}

static kv_rc resolve_ends(const char *method, int budget, kv_window_options *w,
                          const kv_grow_options *g, kv_err *e) {
  kv_rc rc = kv_open_part(method, "sinks", g->sinks, budget, e);
  if (rc) return rc;
  if (w->window == KV_UNSET) {
    w->window = kv_fallback_window(budget - g->sinks);
    if (g->recent && w->window > g->recent) w->window = g->recent;
  }
  if (g->recent && g->recent < w->window)
    return kv_fail(e, KV_REFUSED,
                   "%s: recent=%d is less than window=%d, so some queries do "
                   "not see the window's tokens; raise recent or lower window",
                   method, g->recent, w->window);
  return g->sinks || g->recent ? kv_open_part(method, "sinks and last entries",
                                              kv_grow_ends(g, w), budget, e)
                               : KV_OK;
}

static kv_rc resolve_again(const char *method, const kv_window_options *w,
                           kv_grow_options *g, kv_err *e) {
  if (g->grow == KV_GROW_YES && g->voters)
    return kv_fail(e, KV_REFUSED,
                   "%s: voters=%d has no effect with grow=yes; leave it out or "
                   "write grow=no",
                   method, g->voters);
  if (g->voters > kv_grow_recent(g, w))
    return kv_fail(e, KV_REFUSED,
                   "%s: voters=%d exceeds the last %d entries, which always "
                   "stay; lower voters or raise recent",
                   method, g->voters, kv_grow_recent(g, w));
  if (!kv_grow_by_length(g))
    return kv_open_every(method, kv_grow_voters(g, w), g, e);
  return !g->every ? KV_OK
                   : kv_fail(e, KV_REFUSED,
                             "%s: every=%d has no effect when a lane grows to "
                             "a length; leave it out or write grow=no",
                             method, g->every);
}

/* Charge for the votes held between steps: of the longest lane, or by entry. */
static kv_meta votes_held(const kv_shape *s, int budget, bool even,
                          const kv_window_options *w,
                          const kv_grow_options *g) {
  int past = budget - kv_grow_ends(g, w);
  int64_t n = kv_grow_by_length(g) ? kv_grow_length(g, w, past)
                                   : (int64_t)budget + g->every;
  size_t each = kv_window_state(s, (kv_group_rule)w->group);
  each /= (size_t)s->n_tokens;
  if (n > s->n_tokens) n = s->n_tokens;
  return even ? (kv_meta){.name = "votes", .bytes = each * (size_t)n}
              : (kv_meta){.name = "votes", .per = KV_PER_ENTRY, .bytes = each};
}

kv_rc kv_open_grow(const kv_shape *shape, const char *method, int budget,
                   bool even, kv_window_options *w, kv_grow_options *g,
                   kv_needs *needs, kv_err *e) {
  kv_rc rc = kv_open_budget(method, budget, e);
  if (!rc) rc = resolve_ends(method, budget, w, g, e);
  if (!rc) rc = kv_open_window(shape, method, budget, w, needs, e);
  if (!rc) rc = resolve_again(method, w, g, e);
  if (!rc)
    rc = kv_open_sums(method, kv_grow_voters(g, w),
                      kv_score_heads(shape, (kv_group_rule)w->group), w->kernel,
                      e);
  if (rc || g->grow == KV_GROW_YES) return rc;
  needs->every = kv_grow_by_length(g) ? 1 : g->every;
  needs->decode_rows = true;
  needs->metas = 1;
  needs->meta[0] = votes_held(shape, budget, even, w, g);
  return KV_OK;
}

void kv_grow_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                     const kv_window_options *w, const kv_grow_options *g,
                     int past) {
  if (rows->first < at->shape->prompt_len ||
      kv_grow_votes(g, w, at->shape, at->step, lane->n, past))
    kv_window_observe(at, lane, rows, w);
}

static void keep(const kv_at *at, kv_lane *lane, const kv_window_options *w,
                 const kv_grow_options *g, int past) {
  int n = lane->n - kv_grow_ends(g, w);
  if (n <= past) return;
  float *score = KV_TAKE(at->work, float, n);
  kv_window_score_from(at, lane, (kv_group_rule)w->group,
                       (kv_pooling)w->pooling, w->kernel, g->sinks, n, score);
  kv_keep_top(at, lane, score, g->sinks, n, past);
}

void kv_grow_compress(const kv_at *at, kv_lane *lane,
                      const kv_window_options *w, const kv_grow_options *g,
                      int past) {
  if (!kv_grow_compresses(g, w, at->shape, at->step, lane->n, past)) return;
  keep(at, lane, w, g, past);
  memset(kv_own(at, lane), 0,
         kv_window_state(at->shape, (kv_group_rule)w->group));
}
