/* SPDX-License-Identifier: Apache-2.0
 *
 * H2O, the heavy-hitter oracle: keeps the tokens that received the most
 * attention so far, and the most recent ones.
 *
 *   every query row t, of the prompt and of decoding:
 *     a[j] += sum over the lane's query heads of p[t][j]   (never decays, an
 *     int64 column that begins at 0; arithmetic 4)
 *   variant=drop, after the prompt and after every step, n > budget:
 *     keep the best budget - recent of entries [0, n - recent) by a, and the
 *     last `recent`; kept sums continue, dropped sums are forgotten
 *   variant=masked: the same stored entries; once something was dropped, the
 *     next step does not see the entry just before the last `recent`, of which
 *     its own token is one
 *   variant=prefill: sums over the prompt's rows only, once; then lanes grow;
 *     no column
 *   scale=seen: entries are ranked by RN(a[j] / (t - j)), after t tokens the
 *     mean over the t - j rows that saw token j; a[j] is rounded first
 *
 * Zhang et al. 2023, H2O: Heavy-Hitter Oracle for Efficient Generative
 * Inference. The paper also evicts token by token inside the prompt, which no
 * published code does. The authors' code has three algorithms:
 * - Real drop, the default here, as above. A step attends budget + 1 entries.
 * - The masked simulator removes nothing. For the next step it keeps visible
 *   the best of [0, L - recent) and the last `recent` of L + 1 positions.
 *   Position L - recent is in neither set. This orphan keeps its sum and may
 *   return; the step's probabilities cover only what the step saw. Every other
 *   masked token has its sum set to zero and never returns: the tokens that
 *   beat it keep their sums or lose to better ones. So it is dropped here, and
 *   only the orphan is stored unseen: views and outputs are the simulator's. A
 *   step attends `budget` entries, its own token included. With recent=0 that
 *   code hides the current token from itself; here it is seen.
 * - A third algorithm evicts the smallest sum in place (FlexGen). It is not
 *   offered.
 *
 * The authors' code supports one query head per KV head. group=sum adds the
 * sums of the group's heads (the mean ranks the same). group=query_head gives
 * each head its own lane. group=max takes the largest of the heads' rounded
 * sums. It needs a sum per head and token that outlives the step, more columns
 * than entries carry, so it is refused except with variant=prefill.
 * KVCache-Factory's h2o is variant=prefill:recent=8. kvpress's observed
 * attention divides each sum by the rows that see the column and protects
 * nothing: variant=prefill:recent=0:scale=seen. variant=masked refuses
 * scale=seen, because not all of its rows see what is stored.
 *
 * Family: drop. Acts: every step. Needs: probabilities of every query. Bound:
 * min(t, B). Bytes: B (R + 8). Gather: the token. Reduce: probability, summed
 * over all queries. Sample: top-k, and the last `recent`. Cost: quadratic
 * observation over the prompt; O(n) a lane and step.
 */
#include "ref/methods/h2o.h"
#include "ref/backend/attend.h"
#include "ref/ground/arith.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc resolve(params *o, kv_err *e) {
  kv_rc rc = kv_open_budget("h2o", o->budget, e);
  if (rc) return rc;
  if (o->recent == KV_UNSET) o->recent = o->budget / 2;
  if (o->group == KV_GROUP_MAX && o->variant != PREFILL)
    return kv_fail(
        e, KV_REFUSED,
        "h2o: group=max needs a sum for each query head and token, which "
        "variant=%s does not hold; use group=sum or variant=prefill",
        o->variant == DROP ? "drop" : "masked");
  if (o->scale == SEEN && o->variant == MASKED)
    return kv_fail(
        e, KV_REFUSED,
        "h2o: scale=seen counts every row since a token arrived, but "
        "variant=masked hides one of them; use variant=drop or scale=none");
  return kv_open_part("h2o", "recent", o->recent, o->budget, e);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = resolve(o, e);
  if (rc) return rc;
  kv_group_rule group = (kv_group_rule)o->group;
  needs->prompt_rows = KV_ALL_ROWS;
  needs->want = KV_SUM;
  needs->lanes = kv_group_lanes(group);
  /* The newest stays, so every dropped entry leaves a hole. */
  needs->lengths = o->recent > 0;
  needs->chunks = o->variant != MASKED;
  needs->slides =
      o->variant != MASKED; /* what it hides depends on what was dropped */
  if (o->variant == PREFILL) {
    needs->lane_state = kv_window_state(shape, group);
    needs->slid = kv_window_planes(shape, group);
  } else {
    needs->every = 1;
    needs->decode_rows = true;
    needs->columns = 1;
    needs->column[0] = KV_INT64;
    if (o->variant == MASKED) needs->want |= KV_S;
  }
  int rows = o->variant == PREFILL ? shape->prompt_len : shape->n_tokens;
  return kv_open_sums("h2o", rows, kv_score_heads(shape, group), 1, e);
}

/* The stored entry that the newest token's step does not see; -1: none. */
static int orphan_of(const params *o, const kv_lane *lane) {
  bool masks = o->variant == MASKED && lane->dropped && o->recent > 0;
  return masks ? lane->n - 1 - o->recent : -1;
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  int hidden = orphan_of(at->params, lane);
  (void)q;
  if (hidden > 0) kv_view_add(out, 0, hidden);
  kv_view_add(out, hidden + 1, lane->n - hidden - 1);
}

/* The step's probabilities over what it saw. */
static void add_seen(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                     int hidden) {
  size_t before = (size_t)hidden, after = (size_t)(lane->n - 1 - hidden);
  int seen = lane->n - 1;
  int64_t *column = kv_column_int64(at, lane, 0);
  float *p = KV_TAKE(at->work, float, seen), sink;
  int64_t *sum = KV_TAKE(at->work, int64_t, seen);
  memset(sum, 0, (size_t)seen * sizeof *sum);
  for (int h = 0; h < rows->heads; h++) {
    const float *s = rows->s + (size_t)h * rows->stride;
    memcpy(p, s, before * sizeof *p);
    memcpy(p + before, s + before + 1, after * sizeof *p);
    kv_observation_sink(at->kernels, seen, p,
                        kv_layer_sink(lane->data, lane->first_head + h), p,
                        &sink);
    at->kernels->fix_add(p, seen, sum);
  }
  for (int i = 0; i < seen; i++) column[i + (i >= hidden)] += sum[i];
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  bool prompt = rows->first < at->shape->prompt_len;
  int hidden = prompt ? -1 : orphan_of(o, lane);
  if (o->variant == PREFILL)
    kv_window_add(at, lane, rows, (kv_group_rule)o->group);
  else if (hidden < 0)
    kv_column_add(at, lane, 0, rows);
  else
    add_seen(at, lane, rows, hidden);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int past = lane->n - o->recent;
  if (lane->n <= o->budget) return;
  float *score = KV_TAKE(at->work, float, past);
  if (o->variant == PREFILL)
    kv_window_score(at, lane, (kv_group_rule)o->group, KV_POOL_NONE, 1, past,
                    score);
  else
    kv_scores(kv_column_int64(at, lane, 0), past, score);
  if (o->scale == SEEN) kv_scores_seen(at->step, lane->id, past, score);
  kv_keep_top_recent(at, lane, score, o->budget - o->recent, o->recent);
  if (o->variant == PREFILL) /* a later prompt begins anew */
    memset(kv_own(at, lane), 0,
           kv_window_state(at->shape, (kv_group_rule)o->group));
}

const kv_method kv_method_h2o = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "h2o",
    .title = "heavy hitters by accumulated attention, and the most recent",
    .paper = "Zhang et al. 2023, H2O: Heavy-Hitter Oracle for Efficient "
             "Generative Inference of Large Language Models, "
             "arXiv:2306.14048",
    .view = view,
    .observe = observe,
    .compress_lane = compress_lane,
};
