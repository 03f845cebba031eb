/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV: tokens pass through three tiers. Each head keeps as many as a share
 * of the probability needs.
 *
 *   dense      the last `window` tokens, exact; their queries vote
 *   sparse     older tokens, not moved; a mask of one bit a token says which
 *              ones attention reads: an entry is of class 0 while its bit is
 *              set, else of class 1, so that retier journals what changes
 *   condensed  what is left when the lane was rewritten: at most `upper` tokens
 *
 *   after the prompt and then every `every` steps, in a lane with n > lower
 *   tokens; A: those whose bit is set; t: each query of the dense tier
 *     t votes for the fewest tokens of A, of those not after t, that hold a
 *       share p of its probability. An adapter (the logits, their largest
 *       neighbours, R-KV's score, any scorer's) at a calibrated temperature
 *       T gives that probability (ref/parts/votes.h, to the bit)
 *     chosen = A with at least one vote, the first `sinks` tokens, the dense
 *       tier and the last `local` tokens
 *     n <= upper: the bits of the others are cleared, nothing moves
 *     n >  upper: the others go, and so do masked tokens; if more than upper
 *       are chosen, those that no rule protects are cut by votes, then by mean
 *       probability, then the younger token stays
 *     condensed=merge: entries of A that go are merged into entries that stay
 *       and that no rule protects (ref/parts/cascade.h); masked ones just go
 *
 * A merge weighs by the sums of the window's probabilities, as the code does.
 * The paper weighs by e^(q k) of one query, which is proportional to its
 * probabilities. Over a window, sums of exponentials would be dominated by the
 * queries with the largest logits. The paper pairs as many tokens that go as
 * tokens that stay and does not say what happens to more. The ring is ours, and
 * so is the rule that sinks and the dense tier never merge. The authors shipped
 * only two functions for merging. If merging is switched on, five of six
 * managers raise an error and the sixth ignores it.
 *
 * Ren et al. 2026, Hard-KV (HARDInfer). Where paper and authors' code differ,
 * the default follows the paper. variant=code does what the code does:
 * - Its managers calibrate by the gradient, but its T is never read again and
 *   stays 0.5: the default here. No manager calls its bisection
 *   (calibrate=bisect). That compares p with the sum of the first k entries
 *   instead of the k most probable, in halves of [0.001, 1] to 0.01. There all
 *   rows end together, when the last one is near, or never; here each row ends
 *   alone.
 * - The first layer's T serve all layers: when it compresses, it sends `window`
 *   numbers per KV head to the layers below.
 * - There is no causal mask within the window: its queries also see the
 *   window's later keys. Every token as probable as the last one of a prefix
 *   belongs to the prefix.
 * - A rewrite keeps the first `upper` of a list: sinks, the last `local` from
 *   the newest on, tokens with a vote, the rest, both in the order of the lane.
 *   The list becomes the lane's new order, which later pooling follows. Votes
 *   are a union and are never counted.
 * - Masks are refilled: A is all that is stored at every compression, and a bit
 *   may return. (In the code this happens once all layers have dropped a token.
 *   That a token goes only then takes a second pass, because a layer knows
 *   nothing of the layers below it: sim/replay/layout/README.md, "The dynamic
 *   base".)
 * - The dense tier is not exact: sinks and the last `local` tokens are kept, by
 *   their index in the lane. `local` is 127 for rkv's managers, else 32 (127
 *   also in the vanilla manager that masks).
 *
 * Not reproduced: managers that only mask choose by the mean over the window's
 * queries and fill up to `lower`. Others rewrite from `lower` on. R-KV's own
 * switch keeps it from ever rewriting. Slots of queries that do not exist yet
 * are read. The steps that trigger are counted over all requests. With
 * condensed=merge the rest is merged, not kept to fill up.
 *
 * Both variants: R-KV's keys are compared with all stored keys, masked ones
 * too, as in the code. With redundant=read only keys that may be read are
 * compared; the paper is silent. p is the nearest multiple of 2^-20
 * (oracle-topp). A temperature is computed once for each index t mod window of
 * a lane's ring and then reused (temperatures=every: each time). The loop
 * condition in the paper's boxes is reversed. A view is the set bits, so views
 * are not recorded.
 *
 * Family: drop. Acts: every 128 steps. Needs: the last 128 queries. Bound:
 * `upper` = B after a compression, less than B + every between two. Bytes: (B +
 * 128) R + 128 G d e + 512 for temperatures + a bit for each token, and what
 * the scorer holds. Gather: by `adapter`: the token, its neighbours, or keys
 * alike. Reduce: calibrated probability; votes over the window. Sample: top-p
 * for each query, then top-k by votes. Cost: a compression: window * heads * n
 * * d for logits, a few rows of n a query and, when T is computed, some 25 rows
 * of exponentials.
 */
#include "ref/methods/hardkv.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static void resolve(params *o) {
  int half = o->upper / 2 > 1 ? o->upper / 2 : 1;
  if (o->lower == KV_UNSET) o->lower = o->upper / 2;
  if (o->v.window == KV_UNSET) o->v.window = half < 128 ? half : 128;
  if (o->local == KV_UNSET) {
    bool wide = o->variant == CODE && o->v.adapter == KV_ADAPT_RKV;
    int most = wide ? 127 : 32;
    o->local = o->v.window < most ? o->v.window : most;
  }
  o->v.as_shipped = o->variant == CODE;
  if (o->v.calibrate == KV_UNSET)
    o->v.calibrate =
        o->variant == CODE ? KV_CALIBRATE_GRADIENT : KV_CALIBRATE_BISECT;
  o->v.shares = o->condensed == MERGE;
}

static kv_rc check(const params *o, kv_err *e) {
  int last = kv_hard_last(o);
  if (o->lower > o->upper)
    return kv_fail(e, KV_USAGE,
                   "hardkv: lower=%d must not exceed upper=%d, the length at "
                   "which a lane is rewritten",
                   o->lower, o->upper);
  if (last > o->upper - o->sinks)
    return kv_fail(e, KV_REFUSED,
                   "hardkv: %d sinks and the last %d tokens exceed upper=%d; "
                   "lower sinks, window or local",
                   o->sinks, last, o->upper);
  return kv_open_kernel("hardkv", o->v.kernel, e);
}

/* A scorer's window is that of the voters: both get the same rows. */
static kv_rc open_scorer(const kv_shape *shape, params *o, kv_needs *needs,
                         kv_err *e) {
  kv_score_options *s = &o->s;
  s->w = (kv_window_options){.window = KV_UNSET,
                             .kernel = o->v.kernel,
                             .pooling = KV_POOL_MAX,
                             .group = KV_GROUP_MEAN};
  if (s->score == KV_SCORE_snapkv) s->w.window = o->v.window;
  s->sinks = KV_UNSET;
  s->form = KV_FORM_BOTH;
  s->cross = KV_CROSS_YES;
  s->every = o->every;
  return kv_score_open(shape, "hardkv", o->upper, s, needs, e);
}

static void fill(const kv_shape *shape, const params *o, kv_needs *needs) {
  int rows = o->v.window < shape->prompt_len ? o->v.window : shape->prompt_len;
  if (rows > needs->prompt_rows) needs->prompt_rows = rows;
  needs->decode_rows = true;
  needs->want |= KV_Q;
  needs->every = o->every;
  /* temperatures belong to entries that may be gone */
  needs->slides = needs->chunks = false;
  needs->classes = KV_CASCADE_CLASSES;
  needs->unread = 1u << KV_CASCADE_HIDDEN;
  needs->merges = o->condensed == MERGE;
  if (needs->merges) needs->merged = (kv_means)o->merged;
  needs->lane_state = kv_hard_state(shape, o);
  needs->work += kv_poll_work(shape, &o->v);
  if (o->variant == CODE) {
    needs->across = KV_DOWN;
    needs->message =
        (size_t)shape->n_kv_heads * (size_t)o->v.window * sizeof(float);
  }
  needs->meta[needs->metas++] = (kv_meta){.name = "head mask",
                                          .per = KV_PER_PAGE,
                                          .page = 8,
                                          .bytes = 1,
                                          .scanned = 1};
  needs->meta[needs->metas++] = kv_ring_meta(shape, o->v.window);
  needs->meta[needs->metas++] = (kv_meta){
      .name = "temperatures", .bytes = (size_t)o->v.window * sizeof(float)};
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  if (o->upper == KV_UNSET)
    return kv_fail(
        e, KV_USAGE,
        "hardkv needs upper, the most tokens of a lane; give upper=N or -b");
  resolve(o);
  kv_rc rc = check(o, e);
  if (!rc && !kv_hard_scores(o) && o->s.file.asset)
    rc = kv_fail(e, KV_REFUSED,
                 "hardkv: scores=%s is only read with "
                 "adapter=score:score=file; add that, or leave scores out",
                 o->s.file.asset->path);
  if (!rc && kv_hard_scores(o)) rc = open_scorer(shape, o, needs, e);
  if (!rc) fill(shape, o, needs);
  return rc;
}

static float *ring_of(const kv_at *at, const kv_lane *lane) {
  return (float *)(void *)((char *)kv_own(at, lane) + kv_hard_ring(at->params));
}

static float *temperatures_of(const kv_at *at, const kv_lane *lane) {
  return (float *)(void *)((char *)kv_own(at, lane) +
                           kv_hard_temperatures(at->shape, at->params));
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  (void)q;
  kv_cascade_view(at, lane, out);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_ring_add(at, lane, rows, o->v.window, ring_of(at, lane));
  if (!kv_hard_scores(o) || o->s.rows == 0) return;
  kv_rows last = *rows;
  int skip = kv_hard_skip(o, rows->rows);
  size_t from = kv_rows_at(rows, skip, 0);
  last.first += skip;
  last.rows -= skip;
  if (rows->q) last.q += from * (size_t)at->shape->d;
  if (rows->p) last.p += from * rows->stride;
  kv_score_observe(at, lane, &last, &o->s);
}

/* The score of every entry of the lane; entries that the scorer protects have
 * the largest score. */
static const float *scores_of(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  if (!kv_hard_scores(o)) return NULL;
  float *all = KV_TAKE(at->work, float, lane->n);
  size_t used = at->work->used;
  int first, n = kv_score_span(&o->s, lane->n, &first);
  const float *some = n > 0 ? kv_score(at, lane, &o->s, first, n) : NULL;
  float most = n > 0 ? at->kernels->max(some, n) : 0;
  for (int i = 0; i < lane->n; i++)
    all[i] = i >= first && i < first + n ? some[i - first] : most;
  at->work->used = used;
  return all;
}

/* Takes layer 0's temperatures if this is another layer. */
static void take_temperatures(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  size_t w = (size_t)o->v.window;
  if (!at->above) return;
  memcpy(temperatures_of(at, lane),
         (const float *)at->above->data + (size_t)lane->lane * w,
         w * sizeof(float));
}

static void compress(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_cascade c = kv_hard_cascade(o);
  int32_t *entry = KV_TAKE(at->work, int32_t, lane->n);
  const float *score = scores_of(at, lane);
  int n = kv_cascade_asked(&c, lane, entry);
  kv_poll p = kv_poll_ask(at, lane, &o->v, n, entry, score, ring_of(at, lane),
                          temperatures_of(at, lane));
  kv_cascade_compress(at, lane, &c, &p);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (lane->n > o->lower) {
    take_temperatures(at, lane);
    compress(at, lane);
  }
  if (kv_hard_scores(o)) kv_score_forget(at, lane, &o->s);
}

/* variant=code, in the first layer: its temperatures, for all layers below. */
static bool publish(const kv_at *at, const kv_lane *const *lane, int lanes,
                    void *message) {
  const params *o = at->params;
  size_t w = (size_t)o->v.window;
  if (at->above || !kv_hard_compresses(o, at->shape, at->step)) return false;
  for (int l = 0; l < lanes; l++)
    memcpy((float *)message + (size_t)l * w, temperatures_of(at, lane[l]),
           w * sizeof(float));
  return true;
}

const kv_method kv_method_hardkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 3, /* 1 journalled its views at every step; now a changed bit is
                      a changed class; 2 stored merged rows as fp32 */
    .name = "hardkv",
    .title = "three tiers of tokens, as many in each head as a calibrated "
             "share of the probability needs",
    .paper = "Ren et al. 2026, Hard-KV: Head-Adaptive Regularization for "
             "Decoding-time KV Compression, arXiv:2606.28831",
    .lossless = "p=1:calibrate=none",
    .view = view,
    .observe = observe,
    .compress_lane = compress_lane,
    .publish = publish,
};
