/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV: the prompt's last queries vote for what stays of the prompt.
 *
 *   after the prompt, where n > budget, with w = window:
 *     vote[j]  = group rule over query heads of
 *                sum over the last w queries of p[query][j]
 *     score[j] = pool(vote)[j] over neighbours, j < n - w
 *     keep the best budget - w entries by score, and the last w
 *   grow=yes: afterwards every token is appended, nothing is dropped
 *   grow=no:  the same again after every `every` decode steps, the voters
 *             being the last w queries of those steps
 *
 * Li et al. 2024, SnapKV: LLM Knows What You are Looking for Before
 * Generation. The budget includes the window; softmax runs over all n columns,
 * the window's included. Paper and authors' code agree on that; the code
 * selects per query head and so stores a cache as many times larger as a KV
 * head has query heads (group=query_head), the default here is one selection a
 * KV head by the mean. The code leaves equal scores in no order and max
 * pooling makes them routine: here the lower entry stays. Kept entries stay in
 * time order (the code: by score; attention cannot tell). Settings differ
 * between class (64, kernel 5, avg) and configurations (32, 7, max): the
 * defaults follow the latter, which the paper's tables used. grow=no is not in
 * the paper; every >= window keeps the votes a sum, so that no ring of rows is
 * needed; the sums that live between steps are charged.
 * Cost: window rows of evidence once; O(n) a settling.
 */
#include "ref/methods/snapkv.h"
#include "ref/parts/parts.h"
#include <string.h>

enum { EVERY = 128 }; /* as in R-KV's decode-time SnapKV */

static const kv_param table[] = {
    KV_BUDGET_PARAM(
        params, "tokens left after a settling, window included; must be given"),
    KV_WINDOW_PARAM(params, w),
    KV_KERNEL_PARAM(params, w),
    KV_POOLING_PARAM(params, w),
    KV_GROUP_PARAM(params, w),
    {.name = "grow",
     .kind = KV_CHOICE,
     .offset = offsetof(params, grow),
     .fallback = "yes",
     .choices = "yes|no",
     .help = "keep all generated tokens? yes as in the authors' code; no: "
             "settle again every `every` steps"},
    {.name = "every",
     .kind = KV_INT,
     .offset = offsetof(params, every),
     .min = 0,
     .max = 1 << 30,
     .unit = "steps",
     .help = "with grow=no: decode steps between settlings, at least window; "
             "default max(window, 128); 0 with grow=yes"},
    {.name = NULL}};

static kv_rc resolve_every(params *o, kv_err *e) {
  if (o->every == KV_UNSET) {
    o->every = o->w.window > EVERY ? o->w.window : EVERY;
    if (o->grow == YES) o->every = 0;
  }
  if (o->grow == YES && o->every != 0)
    return kv_fail(e, KV_REFUSED,
                   "snapkv: every=%d means nothing with grow=yes; leave it "
                   "out or write grow=no",
                   o->every);
  if (o->grow == NO && o->every < o->w.window)
    return kv_fail(e, KV_REFUSED,
                   "snapkv: every=%d is less than window=%d, whose queries "
                   "must all be new; raise every or lower window",
                   o->every, o->w.window);
  return KV_OK;
}

/* Votes held between steps, by entry: at most budget + every entries. */
static size_t votes_held(const kv_shape *s, const params *o) {
  int64_t n = (int64_t)o->budget + o->every;
  size_t all = kv_window_state(s, (kv_group_rule)o->w.group);
  if (n > s->n_tokens) n = s->n_tokens;
  return all / (size_t)s->n_tokens * (size_t)n;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = kv_open_window(shape, "snapkv", o->budget, &o->w, needs, e);
  needs->lengths = true;
  if (!rc) rc = resolve_every(o, e);
  if (rc || o->grow == YES) return rc;
  needs->every = o->every;
  needs->decode_rows = true;
  needs->metas = 1;
  needs->meta[0] = (kv_meta){.name = "votes", .bytes = votes_held(shape, o)};
  return KV_OK;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  bool prompt = rows->first < at->shape->prompt_len;
  if (prompt || kv_steps_left(at->shape, at->step, o->every) < o->w.window)
    kv_window_observe(at, lane, rows, &o->w);
}

static void settle_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_window_keep(at, lane, &o->w, o->budget - o->w.window);
  memset(kv_own(at, lane), 0,
         kv_window_state(at->shape, (kv_group_rule)o->w.group));
}

const kv_method kv_method_snapkv = {
    .abi = KV_METHOD_ABI,
    .revision = 1,
    .name = "snapkv",
    .title = "what the prompt's last queries look at",
    .paper = "Li et al. 2024, SnapKV: LLM Knows What You are Looking for "
             "Before Generation, arXiv:2404.14469",
    .params = table,
    .params_size = sizeof(params),
    .open = open,
    .observe = observe,
    .settle_lane = settle_lane,
};
