/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding tokens into a session: they are checked and copied, then enter
 * through the same engine calls as in a walk over a trace. Reading from a
 * session: what it holds, what it attended, its costs and digests.
 */
#include "sim/run/session/session_part.h"

#include "ref/ground/arith.h"
#include "ref/ground/chunk.h"
#include <string.h>

static uint16_t narrow(kv_dtype type, float x) {
  return type == KV_F16 ? kv_to_f16(x) : kv_to_bf16(x);
}

static float widen(kv_dtype type, uint16_t x) {
  return type == KV_F16 ? kv_from_f16(x) : kv_from_bf16(x);
}

/* Converts one row to the side's dtype. Returns the index of the first element
 * that is not exactly representable, or -1. */
static int convert(kv_session *s, const kv_side *side, kv_dtype from,
                   const char *in, char *out) {
  size_t n = (size_t)side->width;
  float *wide = side->dtype == KV_F32 ? (float *)(void *)out : s->row;
  s->cell.plan.kernels->widen(from, in, n, wide);
  if (side->dtype == KV_F32) return -1;
  for (int i = 0; i < side->width; i++) {
    uint16_t x = narrow(side->dtype, wide[i]);
    if (kv_bits(widen(side->dtype, x)) != kv_bits(wide[i])) return i;
    memcpy(out + 2 * (size_t)i, &x, sizeof x);
  }
  return -1;
}

static kv_rc tell(const kv_side *side, int layer, int token, int head,
                  const char *what, kv_err *e) {
  return kv_fail(e, KV_USAGE, "%s of layer %d, token %d, head %d: %s",
                 side->name, layer, token, head, what);
}

/* Copies `count` consecutive rows, from `token` on. */
static kv_rc take_run(kv_session *s, const kv_side *side, int layer, int token,
                      int count, int head, kv_dtype from, const char *in,
                      kv_err *e) {
  size_t width = (size_t)side->width, row = width * kv_dtype_size(from);
  size_t size = width * kv_dtype_size(side->dtype);
  int skip = side->start > token ? side->start - token : 0;
  size_t n = (size_t)count * width, bad = kv_first_not_finite(from, n, in);
  if (bad < n)
    return tell(side, layer, token + (int)(bad / width), head,
                "holds NaN or Inf", e);
  if (skip >= count) return KV_OK;
  size_t at = (size_t)head * (size_t)side->rows;
  char *out = side->data + (at + (size_t)(token + skip - side->start)) * size;
  in += (size_t)skip * row;
  if (from == side->dtype) {
    memcpy(out, in, (size_t)(count - skip) * row);
    return KV_OK;
  }
  for (int i = skip; i < count; i++, in += row, out += size)
    if (convert(s, side, from, in, out) >= 0)
      return tell(side, layer, token + i, head,
                  "is not exact in the session's dtype; round it first, or "
                  "open the session with the dtype of k and v",
                  e);
  return KV_OK;
}

static const char *element(const kv_session_in *in, int token, int head) {
  int64_t size = (int64_t)kv_dtype_size((kv_dtype)in->dtype);
  return (const char *)in->data + (head * in->head + token * in->token) * size;
}

/* Prefetches the rows of a token. If each head's tokens are contiguous, these
 * rows are far apart, and their cache misses should overlap. */
static void fetch(const kv_side *side, const kv_session_in *in) {
  size_t row = (size_t)side->width * kv_dtype_size((kv_dtype)in->dtype);
  for (int h = 0; h < side->heads; h++)
    for (size_t at = 0; at < row; at += 64)
      __builtin_prefetch(element(in, 0, h) + at);
}

/* How many rows are still in the L1 cache when they are copied after the check.
 */
static int near_rows(const kv_side *side, kv_dtype from) {
  size_t row = (size_t)side->width * kv_dtype_size(from);
  return row < 8192 ? (int)(8192 / row) : 1;
}

static kv_rc session_take(kv_session *s, const kv_side *side, int layer,
                          int first, int n, const kv_session_in *in,
                          kv_err *e) {
  if (!in || !in->data)
    return kv_fail(e, KV_USAGE, "layer %d: %s is missing", layer, side->name);
  if (in->dtype < KV_F16 || in->dtype > KV_F32)
    return kv_fail(e, KV_USAGE,
                   "layer %d: %s has dtype %d; F16 is %d, BF16 %d, F32 %d",
                   layer, side->name, in->dtype, KV_F16, KV_BF16, KV_F32);
  kv_dtype from = (kv_dtype)in->dtype;
  int run = in->token == side->width ? near_rows(side, from) : 1;
  if (n == 1) fetch(side, in);
  kv_rc rc = KV_OK;
  for (int h = 0; !rc && h < side->heads; h++)
    for (int j = 0; !rc && j < n; j += run)
      rc = take_run(s, side, layer, first + j, run < n - j ? run : n - j, h,
                    from, element(in, j, h), e);
  return rc;
}

/* Reads the row of one token and head, `width` elements of the caller's type,
 * as floats into out. `token` counts from the first row of `in`. */
static void session_row(const kv_session *s, const kv_session_in *in, int token,
                        int head, int width, float *out) {
  s->cell.plan.kernels->widen((kv_dtype)in->dtype, element(in, token, head),
                              (size_t)width, out);
}

void kv_session_give(const kv_session *s, const kv_session_out *out, int token,
                     int head, const float *row) {
  kv_dtype type = (kv_dtype)out->dtype;
  int64_t size = (int64_t)kv_dtype_size(type), n = s->trace.shape.d_v;
  char *to = (char *)out->data + (token * out->token + head * out->head) * size;
  if (type == KV_F32) {
    memcpy(to, row, (size_t)n * sizeof *row);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    uint16_t x = narrow(type, row[i]);
    memcpy(to + 2 * i, &x, sizeof x);
  }
}

/* --- prompt -------------------------------------------------------------- */

/* Attention outputs of prompt tokens, which a model needs and the engine does
 * not. Works on a shallow copy of the lane, with the block's tokens appended
 * after its last entry, where the engine will write the same rows later; the
 * engine's lane is unchanged. O(n) per token, as for a decode step, but a tile
 * of tokens passes through keys and values at once, with the same bits. In a
 * layer with a sliding window a tile is one token. */

/* One piece of the prompt: tokens first..end-1, in q and out from row `place`.
 */
typedef struct piece {
  int first, end, place;
  const kv_session_in *q;
  const kv_session_out *out;
} piece;

/* Collects the queries of tokens t..t+n-1, the lane's last: [n][queries][d]. */
static void take_queries(kv_session *s, const kv_lane *l, const piece *p, int t,
                         int n) {
  int d = l->shape->d;
  float *q = s->q;
  for (int r = 0; r < n; r++)
    for (int h = 0; h < l->queries; h++, q += d) {
      session_row(s, p->q, p->place + t + r - p->first, l->first_head + h, d,
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

/* Checks the logits of token t + r, which sees entries from..from+n-1. */
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

/* Tokens t..t+n-1, the lane's last, attend to its entries up to themselves, in
 * one pass over keys and values. n is 1 if the layer has a window. */
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

/* Computes the outputs of prompt tokens first..end-1. Their k and v are in the
 * buffers; the current block is not yet in the engine. The first is row `place`
 * of q and out. KV_REFUSED: a logit is not finite. */
static kv_rc session_prompt(kv_session *s, const kv_fed *f, int first, int end,
                            int place, const kv_session_in *q,
                            const kv_session_out *out, kv_err *e) {
  piece p = {first, end, place, q, out};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->lanes; i++)
    rc = attend_lane(s, kv_layer_lane(f->layer, 0, i), &p, f->entered, e);
  return rc;
}

/* --- feed ---------------------------------------------------------------- */

kv_rc kv_session_find(const kv_session *s, int layer, kv_fed **out, kv_err *e) {
  int low = 0, high = s->trace.n_layers;
  while (low < high) {
    int middle = low + (high - low) / 2, at = s->trace.layer[middle].data.layer;
    if (at == layer) {
      *out = &s->fed[middle];
      return KV_OK;
    }
    if (at < layer)
      low = middle + 1;
    else
      high = middle;
  }
  return kv_fail(
      e, KV_USAGE,
      "layer %d is not one of the layers that this session was opened for",
      layer);
}

/* --- checks ------------------------------------------------------------- */

static kv_rc check_out(int layer, const kv_session_out *out, kv_err *e) {
  if (!out) return KV_OK;
  if (out->data && out->dtype >= KV_F16 && out->dtype <= KV_F32) return KV_OK;
  return kv_fail(
      e, KV_USAGE,
      "layer %d: out needs a pointer and a dtype; F16 is %d, BF16 %d, F32 %d",
      layer, KV_F16, KV_BF16, KV_F32);
}

static kv_rc check_order(const kv_session *s, const kv_fed *f, int layer,
                         int step, int n, kv_err *e) {
  int p = s->cell.shape.prompt_len, most = s->cell.shape.n_tokens;
  int chunk = s->cell.shape.chunk;
  if (s->ended)
    return kv_fail(e, KV_USAGE,
                   "the session has ended with its digests; open another");
  if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  if (n < 1 || step < 1)
    return kv_fail(e, KV_USAGE, "layer %d: cannot feed %d tokens up to step %d",
                   layer, n, step);
  if (step > most || n > most)
    return kv_fail(
        e, KV_USAGE,
        "layer %d: step %d with %d tokens exceeds the session's %d tokens",
        layer, step, n, most);
  if (step - n != f->arrived)
    return kv_fail(
        e, KV_USAGE,
        "layer %d has seen %d tokens, so %d tokens up to step %d do not follow",
        layer, f->arrived, n, step);
  if (s->cell.messages && f > s->fed && f[-1].arrived < step)
    return kv_fail(e, KV_USAGE,
                   "layer %d: step %d was fed before layer %d's, but this "
                   "method's layers read messages from the layers above; feed "
                   "the layers of a step from first to last",
                   layer, step, f[-1].data->layer);
  if (s->cell.messages && chunk && step < p && step % chunk)
    return kv_fail(e, KV_USAGE,
                   "layer %d: step %d is within a chunk of prefill=%d, at "
                   "whose end this method's layers read messages from the "
                   "layers above; end a piece at a chunk's end",
                   layer, step, chunk);
  if (f->arrived < p && step > p)
    return kv_fail(e, KV_USAGE,
                   "layer %d: the prompt ends at %d, within these tokens up "
                   "to %d; end a piece there",
                   layer, p, step);
  if (f->arrived >= p && n != 1)
    return kv_fail(e, KV_USAGE,
                   "layer %d: %d tokens at once after the prompt; feed decode "
                   "steps one by one",
                   layer, n);
  return KV_OK;
}

/* Query rows are kept in their dtype, so a prompt must have one. */
static kv_rc check_queries(const kv_session *s, const kv_fed *f, int layer,
                           const kv_session_in *q, kv_err *e) {
  bool first = f->arrived == 0 || f->arrived >= s->cell.shape.prompt_len;
  if (first || !q || (int)f->data->q_dtype == q->dtype) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "layer %d: q must have the same dtype throughout the prompt",
                 layer);
}

/* Does a whole prompt come at once, with its queries laid out as in a trace?
 * They are then read in place. */
static bool lent(const kv_session *s, const kv_fed *f, int n,
                 const kv_session_in *q) {
  int64_t d = s->cell.shape.d;
  return f->arrived == 0 && n == s->cell.shape.prompt_len && q->token == d &&
         q->head % d == 0 && q->head >= n * d && q->head / d <= INT32_MAX;
}

/* Sets where the engine reads queries from. */
static void look_at(kv_fed *f, const void *q, const int32_t *rows, int n) {
  f->data->q = q;
  f->data->rows = rows;
  f->data->n_rows = n;
}

static kv_side query_side(const kv_session *s, const kv_fed *f, int n,
                          const kv_session_in *q) {
  const kv_shape *p = &s->cell.shape;
  kv_dtype type = q ? (kv_dtype)q->dtype : KV_F32;
  if (f->arrived >= p->prompt_len)
    return (kv_side){"q", p->n_heads, p->d, type, f->arrived, 1, f->step_q};
  int asked = q && lent(s, f, n, q) ? 0 : s->asked;
  return (kv_side){"q",      p->n_heads, p->d, type, p->prompt_len - asked,
                   s->asked, f->q};
}

static kv_rc take(kv_session *s, kv_fed *f, int layer, int n,
                  const kv_session_in *q, const kv_session_in *k,
                  const kv_session_in *v, kv_err *e) {
  const kv_shape *p = &s->cell.shape;
  kv_side side[3] = {
      query_side(s, f, n, q),
      {"k", p->n_kv_heads, p->d, p->dtype, 0, p->n_tokens, f->k},
      {"v", p->n_kv_heads, p->d_v, p->dtype, 0, p->n_tokens, f->v}};
  const kv_session_in *in[3] = {q, k, v};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < 3; i++)
    rc = session_take(s, &side[i], layer, f->arrived, n, in[i], e);
  if (!rc) f->data->q_dtype = side[0].dtype;
  return rc;
}

/* --- the engine --------------------------------------------------------- */

/* Enters the next token of a later chunk, which attends as in a decode step. */
static kv_rc row(kv_session *s, kv_fed *f, int place, const kv_session_out *out,
                 kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  s->row_out = out;
  s->row_place = place;
  kv_layer_prompt_row(f->layer, 0, f->arrived, &team);
  f->entered = f->arrived + 1;
  return f->fault.rc ? kv_fail(e, KV_REFUSED, "%s", f->fault.text) : KV_OK;
}

/* Tokens up to `step` have arrived: enters those that complete a block. */
static kv_rc prompt(kv_session *s, kv_fed *f, int step, const kv_session_in *q,
                    const kv_session_out *out, kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  int p = s->cell.shape.prompt_len, block = kv_cell_block(&s->cell);
  int start = f->arrived;
  kv_rc rc = KV_OK;
  if (lent(s, f, step - start, q))
    look_at(f, q->data, NULL, (int)(q->head / s->cell.shape.d));
  for (int end; !rc && f->arrived < step; f->arrived = end) {
    int full = block && f->entered + block < p ? f->entered + block : p;
    end = full < step ? full : step;
    if (kv_row_attends(&s->cell.shape, f->arrived + 1)) {
      end = f->arrived + 1;
      rc = row(s, f, f->arrived - start, out, e);
      continue;
    }
    if (out)
      rc = session_prompt(s, f, f->arrived, end, f->arrived - start, q, out, e);
    if (rc || end < full || s->given) continue; /* given: kv_session_enter */
    kv_layer_block(f->layer, 0, f->entered, full - f->entered, &team);
    f->entered = full;
    if (f->fault.rc) rc = kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  }
  look_at(f, f->q, f->rows, s->asked);
  if (f->entered == p) /* the prompt's queries are no longer needed */
    kv_give_back(f->q, (size_t)s->cell.shape.n_heads * (size_t)s->asked *
                           (size_t)s->cell.shape.d * sizeof(float));
  return rc;
}

static kv_rc decode(kv_session *s, kv_fed *f, const kv_session_out *out,
                    kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  const kv_shape *p = &s->cell.shape;
  kv_rc rc = kv_session_enter(s, f, e);
  if (rc) return rc;
  f->step_row = f->arrived;
  look_at(f, f->step_q, &f->step_row, 1);
  kv_layer_step(f->layer, f->arrived, &team);
  f->arrived++;
  f->entered++;
  if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  for (int h = 0; out && h < p->n_heads; h++)
    kv_session_give(s, out, 0, h, f->out + (size_t)h * (size_t)p->d_v);
  return KV_OK;
}

/* Runs the engine on the new tokens. A failure midway ends the layer. */
static kv_rc run(kv_session *s, kv_fed *f, int step, const kv_session_in *q,
                 const kv_session_out *out, kv_err *e) {
  kv_err why = {0};
  s->hand = f;
  kv_rc rc = f->arrived < s->cell.shape.prompt_len
                 ? prompt(s, f, step, q, out, &why)
                 : decode(s, f, out, &why);
  if (!rc) return KV_OK;
  f->fault = why;
  return kv_fail(e, rc, "%s", why.text);
}

kv_rc kv_session_block(kv_session *s, int layer, int step, int n,
                       const kv_session_in *q, const kv_session_in *k,
                       const kv_session_in *v, const kv_session_out *out,
                       kv_err *e) {
  kv_fed *f = NULL;
  fenv_t mode;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_order(s, f, layer, step, n, e);
  if (!rc) rc = check_queries(s, f, layer, q, e);
  if (!rc) rc = check_out(layer, out, e);
  if (rc) return rc;
  fegetenv(&mode);
  kv_float_ground();
  rc = take(s, f, layer, n, q, k, v, e);
  if (!rc) rc = run(s, f, step, q, out, e);
  fesetenv(&mode);
  return rc;
}

/* --- read ---------------------------------------------------------------- */

const char *kv_session_spec(const kv_session *s) {
  return s ? s->cell.result.spec : "";
}

int kv_session_lanes(const kv_session *s) { return s ? s->lanes : 0; }

static kv_rc check_index(const char *what, int i, int n, kv_err *e) {
  if (i >= 0 && i < n) return KV_OK;
  return kv_fail(e, KV_USAGE, "%s %d: it must be one of %d, from 0 on", what, i,
                 n);
}

/* How many elements fit into the caller's array. */
static int at_most(int n, int room) { return n < room ? n : room; }

kv_rc kv_session_lane(const kv_session *s, int layer, int lane, int room,
                      uint32_t *id, uint32_t *weight, int *n, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_index("lane", lane, s->lanes, e);
  if (rc) return rc;
  const kv_lane *l = kv_layer_lane(f->layer, 0, lane);
  int most = at_most(l->n, room);
  if (n) *n = l->n;
  if (id && most > 0) memcpy(id, l->id, (size_t)most * sizeof *id);
  if (weight && most > 0)
    memcpy(weight, l->weight, (size_t)most * sizeof *weight);
  return KV_OK;
}

/* By its needs, does the method's view read only part of the lane? h2o's view
 * only hides an entry after a drop in a decode step. */
static bool reads_part(const kv_method *m, const kv_needs *n) {
  if (!m->view) return false;
  bool part = n->viewed || n->view_logits || n->unread || n->host;
  for (int i = 0; i < n->metas; i++) part = part || n->meta[i].scanned;
  return part || n->across == KV_DOWN;
}

/* Why the method's attention is not that over the lane's rows; NULL: it is. */
static const char *more_than_rows(const kv_method *m, const kv_lane *l) {
  if (reads_part(m, l->needs))
    return "reads only some of its entries, and others at each step";
  if (m->chunk) return "adds a part to attention that no row holds";
  if (l->needs->reindex) return "rotates keys to new positions";
  for (int i = 0; i < l->n; i++)
    if (kv_lane_bias(l, i) != 0) return "adds to the logits of merged entries";
  return NULL;
}

kv_rc kv_session_held(const kv_session *s, int layer, int lane, int room,
                      float *k, float *v, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_index("lane", lane, s->lanes, e);
  if (rc) return rc;
  const kv_lane *l = kv_layer_lane(f->layer, 0, lane);
  const kv_plan *plan = kv_cell_plan(&s->cell, (int)(f - s->fed));
  const char *why = more_than_rows(plan->method, l);
  if (why)
    return kv_fail(e, KV_REFUSED,
                   "%s %s, so K and V of its entries do not give its "
                   "attention; feed the session the decode steps, too",
                   kv_session_spec(s), why);
  fenv_t mode;
  fegetenv(&mode);
  kv_float_ground();
  for (int i = 0; i < at_most(l->n, room); i++) {
    if (k) kv_lane_key(l, i, k + (size_t)i * (size_t)l->shape->d);
    if (v) kv_lane_value(l, i, v + (size_t)i * (size_t)l->shape->d_v);
  }
  fesetenv(&mode);
  return KV_OK;
}

static kv_rc check_decoded(const kv_session *s, const kv_fed *f, int layer,
                           kv_err *e) {
  if (f->entered > s->cell.shape.prompt_len) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "layer %d has seen %d tokens of its prompt of %d, so there is "
                 "no decode step to look at yet",
                 layer, f->arrived, s->cell.shape.prompt_len);
}

kv_rc kv_session_view(const kv_session *s, int layer, int head, int room,
                      uint32_t *id, int *n, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_index("query head", head, s->cell.shape.n_heads, e);
  if (!rc) rc = check_decoded(s, f, layer, e);
  if (rc) return rc;
  int lane = head / (s->cell.shape.n_heads / s->lanes), count = 0;
  const uint32_t *from = f->id + (size_t)lane * (size_t)s->cell.shape.n_tokens;
  const kv_run *run = f->run + (size_t)head * s->most_runs;
  for (int r = 0; r < f->runs[head]; count += run[r++].count) {
    int most = at_most(run[r].count, room - count);
    if (id && most > 0)
      memcpy(id + count, from + run[r].first, (size_t)most * sizeof *id);
  }
  if (n) *n = count;
  return KV_OK;
}

kv_rc kv_session_lse(const kv_session *s, int layer, float *lse, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!rc) rc = check_decoded(s, f, layer, e);
  if (rc) return rc;
  if (!lse) return kv_fail(e, KV_USAGE, "the pointer for the sums is NULL");
  memcpy(lse, f->lse, (size_t)s->cell.shape.n_heads * sizeof *lse);
  return KV_OK;
}

/* --- the ledger --------------------------------------------------------- */

/* The block that ends at `step` tokens seen; -1: none does. */
static int block_of(const kv_session *s, int step) {
  int p = s->cell.shape.prompt_len, size = kv_cell_block(&s->cell);
  if (step >= p) return s->cell.blocks - 1 + step - p;
  return size && step > 0 && step % size == 0 ? step / size - 1 : -1;
}

kv_rc kv_session_end_step(kv_session *s, int step, kv_err *e) {
  if (!s) return kv_session_none(e);
  if (s->ended)
    return kv_fail(e, KV_USAGE,
                   "the session has ended, so step %d cannot be closed", step);
  if (step <= s->closed)
    return kv_fail(e, KV_USAGE,
                   "the ledger is closed up to step %d, so step %d is over",
                   s->closed, step);
  for (int i = 0; i < s->trace.n_layers; i++)
    if (s->fed[i].arrived < step || s->fed[i].fault.rc)
      return kv_fail(e, KV_USAGE,
                     "step %d cannot be closed: layer %d has seen %d tokens%s",
                     step, s->trace.layer[i].data.layer, s->fed[i].arrived,
                     s->fed[i].fault.rc ? " and failed" : "");
  if (block_of(s, step) < 0)
    return kv_fail(e, KV_USAGE,
                   "step %d is within the prompt, and no block ends there",
                   step);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < s->trace.n_layers; i++)
    rc = kv_session_enter(s, &s->fed[i], e);
  if (!rc) s->closed = step;
  return rc;
}

const char *kv_session_byte_kind(int i) {
  const kv_byte_kind *kind = kv_byte_kind_at(i);
  return kind ? kind->name : NULL;
}

kv_rc kv_session_ledger(const kv_session *s, kv_session_bytes *out, kv_err *e) {
  if (!s) return kv_session_none(e);
  if (!out) return kv_fail(e, KV_USAGE, "the pointer for the ledger is NULL");
  *out = (kv_session_bytes){.step = s->closed};
  if (s->closed == 0) return KV_OK;
  kv_cost_now now = kv_cost_until(s->cell.cost, block_of(s, s->closed));
  out->now = now.held;
  out->peak = now.peak;
  out->mean = now.mean;
  return KV_OK;
}

/* --- digests ------------------------------------------------------------ */

static kv_rc check_end(const kv_session *s, kv_err *e) {
  int first = s->fed[0].arrived;
  for (int i = 0; i < s->trace.n_layers; i++) {
    const kv_fed *f = &s->fed[i];
    int layer = s->trace.layer[i].data.layer;
    if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
    if (f->arrived < s->cell.shape.prompt_len)
      return kv_fail(e, KV_USAGE,
                     "no digest yet: layer %d has seen %d tokens of a prompt "
                     "of %d",
                     layer, f->arrived, s->cell.shape.prompt_len);
    if (f->arrived != first)
      return kv_fail(
          e, KV_USAGE,
          "no digest yet: layer %d has seen %d tokens, but layer %d %d",
          s->trace.layer[0].data.layer, first, layer, f->arrived);
  }
  return KV_OK;
}

static kv_rc end(kv_session *s, kv_err *e) {
  kv_rc rc = KV_OK;
  s->ended = true;
  for (int i = 0; !rc && i < s->trace.n_layers; i++) {
    rc = kv_session_enter(s, &s->fed[i], e);
    s->hand = &s->fed[i];
    if (!rc) rc = kv_layer_end(s->fed[i].layer, e);
  }
  if (!rc) rc = kv_cell_finish(&s->cell, e);
  const kv_result *r = &s->cell.result;
  if (!rc && !kv_result_ran(r)) rc = kv_fail(e, KV_REFUSED, "%s", r->reason);
  if (rc) {
    s->fed[0].fault = *e;
    return rc;
  }
  s->digests = (kv_session_digests){r->journal, r->state, r->output};
  return KV_OK;
}

kv_rc kv_session_digest(kv_session *s, kv_session_digests *out, kv_err *e) {
  kv_err own = {0};
  if (!s) return kv_session_none(e);
  kv_rc rc = check_end(s, e);
  if (rc) return rc;
  rc = s->ended ? KV_OK : end(s, &own);
  if (rc) return kv_fail(e, rc, "%s", own.text);
  if (out) *out = s->digests;
  return KV_OK;
}
