/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention outputs of prompt tokens, which a model needs and the engine does
 * not. Works on a shallow copy of the lane with the block's tokens appended
 * past its last entry, where the engine will write the same rows later, so the
 * engine's lane is unchanged. O(n) per token, as a decode step.
 */
#include "sim/session/session_part.h"

#include "ref/ground/arith.h"

/* One piece of the prompt: tokens first..end-1; the first is at `place` of q
 * and out. */
typedef struct piece {
  int first, end, place;
  const kv_session_in *q;
  const kv_session_out *out;
} piece;

/* Token t, the lane's last, attends all of its entries. */
static kv_rc attend(kv_session *s, const kv_lane *l, const piece *p, int t,
                    kv_err *e) {
  const kv_kernels *kernels = s->cell.plan.kernels;
  int d = l->shape->d;
  kv_run all = {0, l->n};
  kv_view view = {.runs = 1, .entries = l->n, .run = &all};
  kv_lane_values values = {.lane = l, .view = &view};
  for (int h = 0; h < l->queries; h++) {
    float *q = s->q + h * d;
    kv_session_row(s, p->q, p->place + t - p->first, l->first_head + h, d, q);
    kv_lane_query(l, l->n - 1, &s->attend, q);
  }
  kv_lane_logits(kernels, l, l->queries, s->q, (size_t)d, 0, l->n, NULL, 0,
                 s->s, s->stride, &s->attend);
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

static kv_rc attend_lane(kv_session *s, const kv_lane *lane, const piece *p,
                         int entered, kv_err *e) {
  kv_lane l = *lane;
  size_t d_v = (size_t)l.shape->d_v;
  if (p->first > entered) kv_lane_append(&l, entered, p->first - entered);
  for (int t = p->first; t < p->end; t++) {
    kv_lane_append(&l, t, 1);
    kv_rc rc = attend(s, &l, p, t, e);
    if (rc) return rc;
    for (int h = 0; h < l.queries; h++)
      kv_session_give(s, p->out, p->place + t - p->first, l.first_head + h,
                      s->o + (size_t)h * d_v);
  }
  return KV_OK;
}

kv_rc kv_session_prompt(kv_session *s, const kv_fed *f, int first, int end,
                        int place, const kv_session_in *q,
                        const kv_session_out *out, kv_err *e) {
  piece p = {first, end, place, q, out};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->lanes; i++)
    rc = attend_lane(s, kv_layer_lane(f->layer, 0, i), &p, f->entered, e);
  return rc;
}
