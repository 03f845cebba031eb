/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided: the most recent tokens, and every s-th before them.
 *
 *   every decode step, for every query head, over all n stored entries:
 *     n <= budget: attend all
 *     else attend the last `recent` and, of those before, each that is a
 *     multiple of s entries from the last, the current one; s is the least for
 *     which these are no more than budget - recent
 *
 * Child et al. 2019 have the pattern, with a fixed stride l of about the square
 * root of the length: (i - j) mod l = 0, and the last l; that is recent=l and a
 * budget of l + n / l - 1. Zhang et al. 2023 (H2O) draw it beside theirs as
 * static sparsity. As distances are counted from the query, every step attends
 * other tokens: everything stays stored, and little is read. It looks at
 * nothing, so a method that looks at something must win.
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
