/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle top-p: attends the fewest tokens that hold the share p of the
 * probability.
 *
 *   every decode step, for every query head, over all n stored tokens:
 *     rank by logit (ties: the lower entry first) and attend the least prefix
 *     whose mass reaches p of the whole, at least one token
 *
 * No paper: methods whose budget follows the query are compared with it, such
 * as Twilight (Lin et al. 2025) and the top-p of other systems. They estimate
 * the mass; the oracle computes it. It ranks by logits and not by
 * probabilities, because exp is monotone only up to its last bit. Masses are
 * integers (arithmetic 4), so "reaches" is exact. An entry whose mass rounds to
 * 0 (below 2^-41 of the largest) adds nothing, so p = 1 leaves it out.
 * Everything stays stored.
 *
 * p is the nearest multiple of 2^-20, up to 5e-7 more or less than was typed.
 * For example 0.6 is 629146 * 2^-20, 4e-7 more, so it takes 13 of 20 equal
 * logits, of which 12 hold exactly 0.6. p=0.5999995, the multiple below, takes
 * 12.
 *
 * Family: baseline. Acts: every step. Needs: all logits. Bound: t. Bytes: t R.
 * Gather: the token. Reduce: the exact logit of the query. Sample: top-p. Cost:
 * logits of all entries and O(n) a query head and step.
 */
#include "ref/methods/oracle_topp.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  (void)shape;
  (void)p;
  (void)e;
  needs->lengths = needs->view_logits = needs->slides = true;
  return KV_OK;
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  bool *in = KV_TAKE(at->work, bool, lane->n);
  kv_top_p(at, q->s, lane->n, o->p, in);
  kv_view_mask(out, lane->n, in);
}

const kv_method kv_method_oracle_topp = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "oracle-topp",
    .title = "the fewest tokens that hold a share of each query's probability",
    .paper = "none: a bound",
    .lossless = "p=1",
    .view = view,
};
