/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided: attends the most recent tokens and every s-th token before them.
 *
 *   every decode step, for every query head, over all n stored entries:
 *     n <= budget: attend all
 *     else attend the last `recent` entries and, of those before, each whose
 *     distance from the last (current) entry is a multiple of s; s is the
 *     least stride for which these are at most budget - recent
 *
 * The pattern is in Child et al. 2019, with a fixed stride l of about the
 * square root of the length: (i - j) mod l = 0, and the last l. That is
 * recent=l with a budget of l + n / l - 1. Zhang et al. 2023 (H2O) compare with
 * it as static sparsity. Distances count from the query, so every step attends
 * other tokens: everything stays stored and little is read. It looks at no
 * data, so a method that does must beat it.
 *
 * Family: baseline. Acts: every step. Needs: nothing. Bound: t stored, min(t,
 * B) attended. Bytes: t R. Gather: the token. Reduce: its distance. Sample:
 * every s-th. Cost: O(n) a query head and step.
 */
#include "ref/methods/strided.h"
#include "ref/parts/parts.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  (void)shape;
  needs->lengths = needs->slides = true;
  needs->viewed = o->budget;
  kv_rc rc = kv_open_budget("strided", o->budget, e);
  if (rc) return rc;
  if (o->recent == KV_UNSET) o->recent = kv_fallback_window(o->budget);
  return kv_open_part("strided", "recent", o->recent, o->budget, e);
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  const params *o = at->params;
  int n = lane->n, s = n > o->budget ? stride_of(o, n) : 1;
  (void)q;
  for (int i = 0; i < n; i++)
    if (strided_has(o, n, s, i)) kv_view_add(out, i, 1);
}

const kv_method kv_method_strided = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "strided",
    .title = "the most recent tokens, and every s-th before them",
    .paper = "Child et al. 2019, Generating Long Sequences with Sparse "
             "Transformers, arXiv:1904.10509",
    .view = view,
};
