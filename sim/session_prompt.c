/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs of prompt tokens, for who feeds a model: exact causal attention
 * over what a lane holds and the tokens of the block in hand. The engine
 * needs none of it: it looks at a lane as it is, and a copy of the lane's
 * head takes the block's tokens, so that nothing of the lane itself changes.
 * (Tokens are written above its last entry, where the block will put the same
 * ones.) Cost: a decode step a token.
 */
#include "sim/session_part.h"

#include "ref/arith.h"
#include <string.h>

static void load_queries(kv_session *s, const kv_fed *f, const kv_lane *l,
                         int t) {
  size_t d = (size_t)l->shape->d, n = (size_t)l->shape->n_tokens;
  for (int h = 0; h < l->queries; h++) {
    size_t row = (size_t)(l->first_head + h) * n + (size_t)t;
    float *q = s->q + (size_t)h * d;
    memcpy(q, f->q + row * d * sizeof *q, d * sizeof *q);
    kv_lane_query(l, &s->trace.rope, &s->attend, q);
  }
}

/* The lane's last token, t, sees all of its entries. */
static kv_rc attend(kv_session *s, const kv_fed *f, const kv_lane *l, int t,
                    kv_err *e) {
  const kv_kernels *kernels = s->cell.plan.kernels;
  size_t d = (size_t)l->shape->d;
  kv_run all = {0, l->n};
  kv_view view = {.runs = 1, .entries = l->n, .run = &all};
  kv_lane_values values = {.lane = l, .view = &view};
  load_queries(s, f, l, t);
  kv_lane_logits(kernels, l, &s->trace.rope, l->queries, s->q, d, 0, l->n, NULL,
                 0, s->s, s->stride, &s->attend);
  for (int h = 0; h < l->queries; h++)
    if (!kv_all_finite(s->s + (size_t)h * s->stride, l->n))
      return kv_fail(e, KV_REFUSED,
                     "layer %d, query head %d, row %d: a logit of the prompt "
                     "is not finite",
                     l->data->layer, l->first_head + h, t);
  kv_attend_rows(kernels, l->queries, l->n, l->shape->d_v, s->s, s->stride,
                 kv_lane_value_rows, &values, &s->attend, s->o, s->l);
  return KV_OK;
}

static kv_rc attend_lane(kv_session *s, const kv_fed *f, const kv_lane *lane,
                         int first, int end, int place,
                         const kv_session_out *out, kv_err *e) {
  kv_lane l = *lane;
  size_t d_v = (size_t)l.shape->d_v;
  if (first > f->entered) kv_lane_append(&l, f->entered, first - f->entered);
  for (int t = first; t < end; t++) {
    kv_lane_append(&l, t, 1);
    kv_rc rc = attend(s, f, &l, t, e);
    if (rc) return rc;
    for (int h = 0; h < l.queries; h++)
      kv_session_give(s, out, place + t - first, l.first_head + h,
                      s->o + (size_t)h * d_v);
  }
  return KV_OK;
}

kv_rc kv_session_prompt(kv_session *s, kv_fed *f, int first, int end, int place,
                        const kv_session_out *out, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->lanes; i++)
    rc = attend_lane(s, f, kv_layer_lane(f->layer, 0, i), first, end, place,
                     out, e);
  return rc;
}
