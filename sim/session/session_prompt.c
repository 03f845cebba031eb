/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention outputs of prompt tokens, which a model needs and the engine does
 * not. Works on a shallow copy of the lane with the block's tokens appended
 * past its last entry, where the engine will write the same rows later, so the
 * engine's lane is unchanged. O(n) per token, as a decode step, but a tile of
 * tokens goes through keys and values at once; bits are those of one by one. In
 * a layer with a sliding window tokens go one by one, each with its own first.
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

/* The queries of tokens t..t+n-1, the lane's last, [n][queries][d]. */
static void take_queries(kv_session *s, const kv_lane *l, const piece *p, int t,
                         int n) {
  int d = l->shape->d;
  float *q = s->q;
  for (int r = 0; r < n; r++)
    for (int h = 0; h < l->queries; h++, q += d) {
      kv_session_row(s, p->q, p->place + t + r - p->first, l->first_head + h, d,
                     q);
      kv_lane_query(l, l->n - n + r, &s->attend, q);
    }
}

/* The first entry that row t sees. */
static int first_of(const kv_lane *l, int t) {
  int first = 0, from = kv_layer_first(l->data, t);
  while ((int64_t)l->id[first] < from) first++;
  return first;
}

/* The logits of token t + r, which sees entries from.. of the lane, n of them.
 */
static kv_rc check_row(const kv_session *s, const kv_lane *l, int t, int r,
                       int from, int n, kv_err *e) {
  const float *row = s->s + (size_t)(r * l->queries) * s->stride + from;
  for (int h = 0; h < l->queries; h++, row += s->stride)
    if (!kv_all_finite(row, n))
      return kv_fail(e, KV_REFUSED,
                     "layer %d, query head %d, row %d: a logit of the prompt "
                     "is not finite",
                     l->data->layer, l->first_head + h, t + r);
  return KV_OK;
}

/* Tokens t..t+n-1, the lane's last, attend its entries up to themselves, in one
 * pass over keys and values. n is 1 where the layer has a window. */
static kv_rc attend(kv_session *s, const kv_lane *l, const piece *p, int t,
                    int n, kv_err *e) {
  const kv_kernels *kernels = s->cell.plan.kernels;
  int first = first_of(l, t), sees = l->n - first;
  int least = sees - n + 1; /* entries that the first of the tokens sees */
  kv_run all = {first, sees};
  kv_view view = {.runs = 1, .entries = sees, .run = &all};
  kv_lane_values values = {.lane = l, .view = &view};
  kv_rc rc = KV_OK;
  take_queries(s, l, p, t, n);
  kv_lane_logits(kernels, l, n * l->queries, s->q, (size_t)l->shape->d, first,
                 sees, NULL, 0, s->s, s->stride, &s->attend);
  for (int r = 0; !rc && r < n; r++)
    rc = check_row(s, l, t, r, first, least + r, e);
  if (rc) return rc;
  s->attend.sink = kv_layer_sink(l->data, l->first_head);
  kv_attend_tile(kernels, n, l->queries, least, l->shape->d_v, s->s + first,
                 s->stride, kv_lane_value_rows, &values, &s->attend, s->o,
                 s->l);
  s->attend.sink = NULL;
  return KV_OK;
}

static kv_rc attend_lane(kv_session *s, const kv_lane *lane, const piece *p,
                         int entered, kv_err *e) {
  kv_lane l = *lane;
  size_t d_v = (size_t)l.shape->d_v;
  int tile = l.data->window ? 1 : s->tile;
  if (p->first > entered) kv_lane_append(&l, entered, p->first - entered);
  for (int t = p->first, n; t < p->end; t += n) {
    n = p->end - t < tile ? p->end - t : tile;
    kv_lane_append(&l, t, n);
    kv_rc rc = attend(s, &l, p, t, n, e);
    if (rc) return rc;
    for (int i = 0; i < n * l.queries; i++)
      kv_session_give(s, p->out, p->place + t + i / l.queries - p->first,
                      l.first_head + i % l.queries, s->o + (size_t)i * d_v);
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
