/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle top-k: attends the tokens with the largest exact logits for the
 * current query.
 *
 *   every decode step, for every query head, over all n stored tokens:
 *     attend the `budget` tokens of largest logit (arithmetic 1), the current
 *     one competing like any other (ties: the lower entry)
 *
 * No paper: methods that select are compared with it. It reads every key before
 * it chooses, so it saves nothing; everything stays stored. It is the best
 * choice by mass, not always by output error.
 *
 * Family: baseline. Acts: every step. Needs: all logits. Bound: t stored,
 * min(t, B) attended. Bytes: t R. Gather: the token. Reduce: the exact logit of
 * the query. Sample: top-k. Cost: logits of all entries and O(n) a query head
 * and step.
 */
#include "ref/methods/oracle_topk.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  const params *o = p;
  (void)shape;
  needs->lengths = needs->view_logits = needs->slides = true;
  return kv_open_budget("oracle-topk", o->budget, e);
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  bool *in = KV_TAKE(at->work, bool, lane->n);
  kv_top(q->s, lane->n, o->budget, in);
  kv_view_mask(out, lane->n, in);
}

const kv_method kv_method_oracle_topk = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "oracle-topk",
    .title = "the exact top tokens of every query: the bound for selections",
    .paper = "none: a bound",
    .view = view,
};
