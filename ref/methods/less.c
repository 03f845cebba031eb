/* SPDX-License-Identifier: Apache-2.0
 *
 * LESS: evicts like a sparse policy, and adds each dropped token to a low-rank
 * state of constant size.
 *
 *   policy=h2o: as h2o drops: after the prompt and after every step, keep the
 *     best budget - recent entries before the last `recent`, by the summed
 *     probabilities of all rows so far, and the last `recent`
 *   policy=lambda: keep the first budget - recent and the last `recent`, at
 *     their recorded positions
 *   a dropped entry (k, v): H += psi(k)^T v,  z += psi(k)
 *   a decode step, every query head, once anything was dropped:
 *     out = (phi(q) H + sum of e^s v) / (phi(q) z + sum of e^s) over what stays
 *
 * To the bit: z [r] and H [r][d_v] are fp32 and begin at 0. Products are
 * arithmetic 1 with scale 1 (one chain, then + 0), g is GELU (arithmetic 6),
 * abs clears the sign, and every operation is rounded. For each KV head and
 * each dropped entry, in lane order and before the drop, with its key as
 * attention reads it:
 *
 *   t = g(C1 k);  u = g(C2 t);  kappa[j] = abs(a[j]) * u[j];  w = B kappa
 *   psi[j] = abs(fma(b[j], w[j], kappa[j]))
 *   z[j] = z[j] + psi[j];  H[j][x] = fma(psi[j], v[x], H[j][x])
 *
 * For each query head t = g(A1 q); u = g(A2 t); phi[j] = abs(u[j]). A decode
 * step adds one chunk (arithmetic 3) to those of each query head's view:
 *
 *   l = max(the chain over j from +0 of fma(phi[j], z[j], .), F)
 *   a[x] = (the chain over j from +0 of fma(max(phi[j], F), H[j][x], .)) / l
 *   m_c = log(l), l_c = 1, a_c = a;  F = 1e-6
 *
 * A state that is no longer finite ends the cell. The probabilities that rank
 * entries cover the stored entries only.
 *
 * The weights are a file of format kvreplay-less. For query heads each layer
 * has query.in.weight = A1 [heads, hidden, d] and query.out.weight = A2 [heads,
 * r, hidden]. For KV heads it has key.in.weight = C1, key.out.weight = C2 and
 * key.scale = a [KV heads, r]; key.mix.weight = B [KV heads, r, r] and
 * key.mix.scale = b. The widths hidden and r are the same in all layers.
 * Without weights a dropped token is unknown, so the file has no substitute.
 * All requests share the weights; `asset` reports their bytes.
 *
 * Dong et al. 2024, Get More with LESS: Synthesizing Recurrence with KV Cache
 * Compression for Efficient LLM Inference. The authors use rank 8 and a hidden
 * width of 512; here the file decides both. Compared with the authors' code:
 * - q and k are after RoPE, and q is without the scale of the logits: as in the
 *   code.
 * - The floors are the code's: phi(q) z is at least 1e-6, and so is each
 *   element of phi(q) where it multiplies H. The paper has none.
 * - The code masks (h2o:variant=masked) and adds what the mask loses. When a
 *   masked token returns, it subtracts psi(k) from z and adds psi(k)^T v to H a
 *   second time. Here tokens are dropped, and none returns.
 * - Each query head has its own A, and each KV head its own B and C. The query
 *   heads of a KV head share one selection, by the sum of their probabilities.
 *   That is the code for models with one KV head; the paper's model has as many
 *   KV heads as query heads.
 * - A step also attends the newest token: budget + 1 entries.
 * - Weights are trained against the heads' outputs. The code trains after the
 *   layer's output projection, which no trace holds.
 *
 * Family: drop. Acts: every step. Needs: probabilities of every query; trained
 * perceptrons (a file). Bound: min(t, B). Bytes: B (R + 8) + 4 r (d_v + 1), r
 * the rank of the state. Gather: the token. Reduce: probability, summed over
 * all queries. Sample: top-k, and the last `recent`. Cost: h2o's observation,
 * and 2 hidden * (d + rank) for each query and each dropped token.
 */
#include "ref/methods/less.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/latents.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_tensor_ask tensors[] = {
    [QUERY_IN] = {.name = "layers.*.query.in.weight",
                  .rank = 3,
                  .dim = {KV_DIM_HEADS, KV_DIM_ANY, KV_DIM_D}},
    [QUERY_OUT] = {.name = "layers.*.query.out.weight",
                   .rank = 3,
                   .dim = {KV_DIM_HEADS}},
    [KEY_IN] = {.name = "layers.*.key.in.weight",
                .rank = 3,
                .dim = {KV_DIM_KV_HEADS, KV_DIM_ANY, KV_DIM_D}},
    [KEY_OUT] = {.name = "layers.*.key.out.weight",
                 .rank = 3,
                 .dim = {KV_DIM_KV_HEADS}},
    [KEY_SCALE] = {.name = "layers.*.key.scale",
                   .rank = 2,
                   .dim = {KV_DIM_KV_HEADS}},
    [KEY_MIX] = {.name = "layers.*.key.mix.weight",
                 .rank = 3,
                 .dim = {KV_DIM_KV_HEADS}},
    [KEY_MIX_SCALE] = {.name = "layers.*.key.mix.scale",
                       .rank = 2,
                       .dim = {KV_DIM_KV_HEADS}},
    [TENSORS] = {.name = NULL}};
static const kv_asset_kind kind = {"kvreplay-less", tensors};

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc check_dim(const params *o, int layer, int which, int dim, int want,
                       kv_err *e) {
  const kv_asset *a = o->file.asset;
  const kv_tensor *t = &kv_asset_layer(a, layer)[which];
  if (t->dim[dim] == want) return KV_OK;
  return kv_fail(
      e, KV_REFUSED,
      "less: dimension %d of %s of layer %d in %s is %d and must be %d, as in "
      "the other tensors; name weights that `kvreplay train less` wrote",
      dim, strchr(tensors[which].name, '*') + 2, layer, a->path,
      (int)t->dim[dim], want);
}

static kv_rc check_layer(const params *o, int layer, kv_err *e) {
  const struct {
    int which, dim, want;
  } all[] = {{QUERY_IN, 1, o->hidden},  {QUERY_OUT, 1, o->rank},
             {QUERY_OUT, 2, o->hidden}, {KEY_IN, 1, o->hidden},
             {KEY_OUT, 1, o->rank},     {KEY_OUT, 2, o->hidden},
             {KEY_SCALE, 1, o->rank},   {KEY_MIX, 1, o->rank},
             {KEY_MIX, 2, o->rank},     {KEY_MIX_SCALE, 1, o->rank}};
  kv_rc rc = KV_OK;
  for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++)
    rc = check_dim(o, layer, all[i].which, all[i].dim, all[i].want, e);
  return rc;
}

static kv_rc open_weights(params *o, kv_err *e) {
  const kv_asset *a = o->file.asset;
  const kv_tensor *first = kv_asset_layer(a, a->layer[0]);
  kv_rc rc = KV_OK;
  o->hidden = (int)first[QUERY_IN].dim[1];
  o->rank = (int)first[QUERY_OUT].dim[1];
  for (int i = 0; !rc && i < a->layers; i++)
    rc = check_layer(o, a->layer[i], e);
  return rc;
}

static int larger(int a, int b) { return a > b ? a : b; }

enum { TILE = 16 }; /* tokens processed together */

/* Bytes of workspace for a tile's keys, values, hidden rows and features, and
 * for what `logits` packs. */
static size_t work(const kv_shape *s, const params *o) {
  size_t row =
      (size_t)s->d + (size_t)s->d_v + (size_t)o->hidden + 3 * (size_t)o->rank;
  int deepest = larger(s->d, larger(o->hidden, o->rank));
  return (TILE * row + (size_t)KV_PACK * (size_t)deepest) * sizeof(float) +
         64 * 16;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = kv_open_budget("less", o->budget, e);
  int first = o->budget < 5 ? o->budget - 1 : 4;
  if (rc) return rc;
  if (o->recent == KV_UNSET)
    o->recent = o->policy == H2O ? o->budget / 2 : o->budget - first;
  rc = kv_open_part("less", "recent", o->recent, o->budget, e);
  if (!rc) rc = open_weights(o, e);
  if (rc) return rc;
  needs->every = 1;
  needs->lengths = o->recent > 0;
  needs->lane_state =
      sizeof(int32_t) + kv_less_floats(o, shape->d_v) * sizeof(float);
  needs->meta[needs->metas++] =
      (kv_meta){.name = "low-rank state",
                .per = KV_PER_LANE,
                .bytes = kv_less_floats(o, shape->d_v) * sizeof(float)};
  needs->work = work(shape, o);
  if (o->policy == LAMBDA) return KV_OK;
  needs->prompt_rows = KV_ALL_ROWS;
  needs->want = KV_SUM;
  needs->decode_rows = true;
  needs->columns = 1;
  needs->column[0] = KV_INT64;
  return kv_open_sums("less", shape->n_tokens, kv_group(shape), 1, e);
}

/* Head h's rows of a tensor of the layer. */
static const float *of_head(const kv_at *at, int which, int h) {
  const kv_tensor *t = &at->asset[which];
  size_t each = (size_t)t->dim[1] * (size_t)(t->dim[2] ? t->dim[2] : 1);
  return (const float *)t->data + (size_t)h * each;
}

/* out[m][rank] = g(g(x in) out). */
static void perceptron(const kv_at *at, int m, const float *x, const float *in,
                       const float *to, float *hidden, float *out,
                       float *pack) {
  const params *o = at->params;
  kv_products(at->kernels, m, o->hidden, at->shape->d, x, in, NULL, hidden,
              pack);
  at->kernels->gelu(hidden, m * o->hidden, hidden);
  kv_products(at->kernels, m, o->rank, o->hidden, hidden, to, NULL, out, pack);
  at->kernels->gelu(out, m * o->rank, out);
}

static float *take_pack(const kv_at *at) {
  const params *o = at->params;
  int deepest = larger(at->shape->d, larger(o->hidden, o->rank));
  return KV_TAKE(at->work, float, (size_t)KV_PACK *(size_t)deepest);
}

/* psi of m keys; mixed: scratch of the size of psi. */
static void features(const kv_at *at, int head, int m, const float *key,
                     float *hidden, float *mixed, float *psi, float *pack) {
  const params *o = at->params;
  const float *scale = of_head(at, KEY_SCALE, head);
  const float *mix_scale = of_head(at, KEY_MIX_SCALE, head);
  perceptron(at, m, key, of_head(at, KEY_IN, head), of_head(at, KEY_OUT, head),
             hidden, psi, pack);
  for (int i = 0; i < m * o->rank; i++)
    psi[i] = kv_less_kappa(scale[i % o->rank], psi[i]);
  kv_products(at->kernels, m, o->rank, o->rank, psi, of_head(at, KEY_MIX, head),
              NULL, mixed, pack);
  for (int i = 0; i < m * o->rank; i++)
    psi[i] = kv_less_psi(mix_scale[i % o->rank], mixed[i], psi[i]);
}

static bool chunk(const kv_at *at, const kv_lane *lane, const kv_query *q,
                  float *m, float *l, float *a) {
  const params *o = at->params;
  state *s = kv_own(at, lane);
  int head = lane->first_head + q->head, d_v = at->shape->d_v;
  if (s->gone == 0) return false;
  float *hidden = KV_TAKE(at->work, float, o->hidden);
  float *phi = KV_TAKE(at->work, float, o->rank), mass = 0;
  perceptron(at, 1, q->q, of_head(at, QUERY_IN, head),
             of_head(at, QUERY_OUT, head), hidden, phi, take_pack(at));
  memset(a, 0, (size_t)d_v * sizeof *a);
  for (int j = 0; j < o->rank; j++) {
    float p = kv_less_abs(phi[j]), floor = kv_less_floor(p);
    const float *h = kv_less_h(s, o) + (size_t)j * (size_t)d_v;
    mass = kv_fma(p, s->z[j], mass);
    for (int x = 0; x < d_v; x++) a[x] = kv_fma(floor, h[x], a[x]);
  }
  mass = kv_less_floor(mass);
  for (int x = 0; x < d_v; x++) a[x] = kv_div(a[x], mass);
  *m = kv_finite(mass) ? kv_log(mass) : mass;
  *l = 1;
  return true;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  kv_column_add(at, lane, 0, rows);
}

/* Adds entries list[0..m) to the state, one after another. */
static void forget(const kv_at *at, kv_lane *lane, int m, const int32_t *list) {
  const params *o = at->params;
  state *s = kv_own(at, lane);
  size_t used = at->work->used, d = (size_t)at->shape->d;
  size_t d_v = (size_t)at->shape->d_v, r = (size_t)o->rank, n = (size_t)m;
  float *key = KV_TAKE(at->work, float, n *d);
  float *v = KV_TAKE(at->work, float, d_v);
  float *hidden = KV_TAKE(at->work, float, n *(size_t)o->hidden);
  float *mixed = KV_TAKE(at->work, float, n *r);
  float *psi = KV_TAKE(at->work, float, n *r);
  for (size_t i = 0; i < n; i++) kv_lane_key(lane, list[i], key + i * d);
  features(at, lane->kv_head, m, key, hidden, mixed, psi, take_pack(at));
  for (size_t i = 0; i < n; i++) {
    kv_lane_value(lane, list[i], v);
    for (size_t j = 0; j < r; j++) {
      float *h = kv_less_h(s, o) + j * d_v, p = psi[i * r + j];
      s->z[j] = kv_add(s->z[j], p);
      for (size_t x = 0; x < d_v; x++) h[x] = kv_fma(p, v[x], h[x]);
    }
  }
  s->gone += m;
  at->work->used = used;
}

static void choose(const kv_at *at, const kv_lane *lane, bool *stays) {
  const params *o = at->params;
  int past = lane->n - o->recent, first = o->budget - o->recent;
  float *score = KV_TAKE(at->work, float, past);
  for (int i = 0; i < lane->n; i++) stays[i] = i >= past || i < first;
  if (o->policy == LAMBDA) return;
  kv_scores(kv_column_int64(at, lane, 0), past, score);
  kv_top(score, past, first, stays);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int32_t list[TILE];
  int m = 0;
  if (lane->n <= o->budget) return;
  bool *stays = KV_TAKE(at->work, bool, lane->n);
  choose(at, lane, stays);
  for (int i = 0; i < lane->n; i++) {
    if (!stays[i]) list[m++] = i;
    if (m < TILE && (m == 0 || i < lane->n - 1)) continue;
    forget(at, lane, m, list);
    m = 0;
  }
  kv_keep_mask(lane, stays);
}

const kv_method kv_method_less = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "less",
    .title = "heavy hitters, and a low-rank state of all that was dropped",
    .paper = "Dong et al. 2024, Get More with LESS: Synthesizing Recurrence "
             "with KV Cache Compression for Efficient LLM Inference, "
             "arXiv:2402.09398",
    .chunk = chunk,
    .observe = observe,
    .compress_lane = compress_lane,
};
