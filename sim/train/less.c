/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptrons of LESS (ref/methods/less.c), a pair a head:
 *
 *   rows t >= budget of a piece, over its tokens 0 .. t:
 *     kept: the last `recent` tokens before t, t itself, and of those before
 *       the best budget - recent by the probabilities of all rows so far (the
 *       group's heads added, a token that is not kept begins anew)
 *     o^ = (sum kept e^s v + sum rest phi(q) psi(k) v) /
 *          (sum kept e^s   + sum rest phi(q) psi(k))
 *   loss  mean of (o^ - o)^2, o of all tokens; layers add up
 *
 * Dong et al. 2024 (LESS), whose code this follows: Adam with rate 1e-3, halved
 * every 10 of 40 passes, and their first values. What is theirs and not here:
 * they compare behind the layer's output projection, which no trace holds (as
 * `kvreplay train-hf less` does); they
 * drop out .3 of the hidden units; they keep the best epoch; their sequences
 * are whole, here a piece's first `context` tokens are one. policy=lambda is
 * not trained for: the same weights serve it. Traces that record some of their
 * query rows are left out.
 * Cost: context^2 (d + 2 d_v) for each head of a piece.
 */
#include "ref/parts/parts.h"
#include "sim/train/less_features.h"
#include "sim/train/product.h"
#include "sim/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kv_param table[] = {
    KV_INT_PARAM("rank", kv_less_params, rank, "8", 1, 1024, NULL,
                 "width of phi and psi; 8 as in the paper"),
    KV_INT_PARAM("hidden", kv_less_params, hidden, "512", 1, 1 << 16, NULL,
                 "units between; 512 as in the paper"),
    KV_INT_PARAM(
        "budget", kv_less_params, budget, "32", 2, 1 << 20, "tokens",
        "that the policy keeps, half of them recent; about the paper's 5 "
        "% of the context"),
    KV_INT_PARAM("context", kv_less_params, context, "512", 4, 1 << 20,
                 "tokens", "of a piece that are looked at, its first ones"),
    {.name = NULL}};

/* --- arrays -------------------------------------------------------------- */

static kv_rc open(kv_training *t, kv_err *e) {
  const kv_less_params *o = t->params;
  const kv_shape *s = &t->data->shape;
  int64_t q = s->n_heads, k = s->n_kv_heads, d = s->d, h = o->hidden,
          r = o->rank;
  if (o->context <= o->budget)
    return kv_fail(e, KV_USAGE,
                   "context=%d leaves nothing to drop with budget=%d; choose a "
                   "longer context",
                   o->context, o->budget);
  kv_train_declare(t, "layers.*.query.in.weight", 3, (int64_t[]){q, h, d});
  kv_train_declare(t, "layers.*.query.out.weight", 3, (int64_t[]){q, r, h});
  kv_train_declare(t, "layers.*.key.in.weight", 3, (int64_t[]){k, h, d});
  kv_train_declare(t, "layers.*.key.out.weight", 3, (int64_t[]){k, r, h});
  kv_train_declare(t, "layers.*.key.mix.weight", 3, (int64_t[]){k, r, r});
  kv_train_declare(t, "layers.*.key.scale", 2, (int64_t[]){k, r});
  kv_train_declare(t, "layers.*.key.mix.scale", 2, (int64_t[]){k, r});
  return KV_OK;
}

/* Even in +-sqrt(6 / (in + out)); scales are 1e-4. */
static void begin(const kv_training *t, kv_draw *draw, float *value) {
  for (int i = 0; i < t->arrays; i++) {
    const kv_train_array *a = &t->array[i];
    double most =
        i < KV_LESS_KEY_SCALE ? sqrt(6.0 / (double)(a->dim[1] + a->dim[2])) : 0;
    for (size_t j = 0; j < a->count; j++) {
      double even = (double)(kv_draw_next(draw) >> 11) * 0x1p-52 - 1;
      value[a->offset + j] =
          i < KV_LESS_KEY_SCALE ? (float)(even * most) : 1e-4f;
    }
  }
}

/* --- what is kept -------------------------------------------------------- */

typedef struct work {
  const kv_train_task *q;
  int n, group;
  float *k, *v, *query, *s; /* [n][d]; [n][d_v]; [group][n][d], [n][n] each */
  uint8_t *kept;            /* [n][n] */
  float *acc, *p;           /* [n] */
  bool *top;                /* [n] */
  double *full, *sparse, *rest; /* [d_v]; sums */
  kv_train_loss *out;
} work;

static float *logits(const work *w, int m, int t) {
  return w->s + ((size_t)m * (size_t)w->n + (size_t)t) * (size_t)w->n;
}

static float largest(const float *s, int n) {
  float best = s[0];
  for (int j = 1; j < n; j++) best = s[j] > best ? s[j] : best;
  return best;
}

/* The row's probabilities, of all heads of the group, into acc. */
static void add_row(const work *w, int t) {
  for (int m = 0; m < w->group; m++) {
    const float *s = logits(w, m, t);
    float top = largest(s, t + 1), all = 0;
    for (int j = 0; j <= t; j++) all += w->p[j] = expf(s[j] - top);
    for (int j = 0; j <= t; j++) w->acc[j] += w->p[j] / all;
  }
}

static void choose(const work *w) {
  const kv_less_params *o = w->q->t->params;
  int recent = o->budget / 2, heavy = o->budget - recent;
  memset(w->acc, 0, (size_t)w->n * sizeof *w->acc);
  for (int t = 0; t < o->budget; t++) add_row(w, t);
  for (int t = o->budget; t < w->n; t++) {
    uint8_t *kept = w->kept + (size_t)t * (size_t)w->n;
    kv_top(w->acc, t - recent, heavy, w->top);
    for (int j = 0; j <= t; j++) kept[j] = j >= t - recent || w->top[j];
    add_row(w, t);
    for (int j = 0; j <= t; j++) w->acc[j] = kept[j] ? w->acc[j] : 0;
  }
}

/* --- a row --------------------------------------------------------------- */

/* Sums of a row: numerators in full, sparse and rest, and what they are divided
 * by, all times e^-top. u: phi psi of each token that is not kept. */
typedef struct sums {
  double full, sparse, rest, by;
} sums;

static sums add_up(const work *w, const kv_less_keys *x, const float *s,
                   const uint8_t *kept, const float *phi, int t, float *u) {
  int r = x->mix.out, d_v = w->q->piece->of->trace->shape.d_v;
  float top = largest(s, t + 1);
  sums z = {.by = exp(-(double)top)};
  memset(w->full, 0, 3 * (size_t)d_v * sizeof(double));
  for (int j = 0; j <= t; j++) {
    const float *v = w->v + (size_t)j * (size_t)d_v;
    double p = exp((double)s[j] - (double)top), of = p, *to = w->sparse;
    u[j] = 0;
    for (int i = 0; i < r && !kept[j]; i++)
      u[j] += fabsf(phi[i]) * fabsf(x->psi[j * r + i]);
    if (!kept[j]) of = z.by * (double)u[j], to = w->rest;
    *(kept[j] ? &z.sparse : &z.rest) += of;
    z.full += p;
    for (int i = 0; i < d_v; i++) {
      w->full[i] += p * (double)v[i];
      to[i] += of * (double)v[i];
    }
  }
  return z;
}

/* Loss of a row and, where it is asked for, what it says of phi and psi. */
static void row(const work *w, kv_less_keys *x, const float *s,
                const uint8_t *kept, const float *phi, int t, float *u,
                float *d_phi, double each) {
  int r = x->mix.out, d_v = w->q->piece->of->trace->shape.d_v;
  sums z = add_up(w, x, s, kept, phi, t, u);
  double all = z.sparse + z.rest;
  for (int i = 0; i < d_v; i++) {
    double o = w->full[i] / z.full, alone = w->sparse[i] / z.sparse - o;
    double is = (w->sparse[i] + w->rest[i]) / all, left = is - o;
    w->out->loss += left * left;
    w->out->without += alone * alone;
    w->full[i] = 2 * left * each; /* of the output */
    w->rest[i] = is;
  }
  w->out->weight += d_v;
  for (int j = 0; j <= t && d_phi; j++) {
    const float *v = w->v + (size_t)j * (size_t)d_v;
    double d = 0;
    if (kept[j]) continue;
    for (int i = 0; i < d_v; i++) d += w->full[i] * ((double)v[i] - w->rest[i]);
    float by = (float)(d * z.by / all);
    for (int i = 0; i < r; i++) {
      d_phi[i] += by * fabsf(x->psi[j * r + i]) * kv_less_sign(phi[i]);
      x->d_psi[j * r + i] += by * fabsf(phi[i]);
    }
  }
}

/* --- a piece ------------------------------------------------------------- */

static void widen(const work *w, const void *from, kv_dtype type, int rows,
                  int head, int width, float *out) {
  size_t at = ((size_t)head * (size_t)rows + (size_t)w->q->piece->first) *
              (size_t)width * kv_dtype_size(type);
  w->q->t->kernels->widen(type, (const char *)from + at,
                          (size_t)w->n * (size_t)width, out);
}

static void read_head(const work *w, int g) {
  const kv_trace *t = w->q->piece->of->trace;
  const kv_layer_data *data = &t->layer[w->q->at].data;
  size_t n = (size_t)w->n, d = (size_t)t->shape.d;
  widen(w, data->k, t->shape.dtype, t->shape.n_tokens, g, t->shape.d, w->k);
  widen(w, data->v, t->shape.dtype, t->shape.n_tokens, g, t->shape.d_v, w->v);
  for (int m = 0; m < w->group; m++) {
    float *query = w->query + (size_t)m * n * d, *s = logits(w, m, 0);
    widen(w, data->q, data->q_dtype, data->n_rows, g * w->group + m, t->shape.d,
          query);
    kv_product(w->n, w->n, t->shape.d, kv_rows_of(query, t->shape.d),
               kv_turned(w->k, t->shape.d), false, s);
    for (size_t i = 0; i < n * n; i++) s[i] *= t->shape.scale;
  }
}

static void query_head(const work *w, kv_less_keys *x, int g, int m) {
  const kv_train_task *q = w->q;
  const kv_less_params *o = q->t->params;
  const kv_shape *s = &q->piece->of->trace->shape;
  size_t n = (size_t)w->n, used = q->scratch->used;
  double each =
      1.0 / ((double)(w->n - o->budget) * (double)s->n_heads * (double)s->d_v);
  float *u = kv_scratch_take(q->scratch, n);
  float *d_phi = kv_scratch_take(q->scratch, n * (size_t)o->rank);
  kv_less_perceptron p;
  kv_less_forth(q, KV_LESS_QUERY_IN, KV_LESS_QUERY_OUT, g * w->group + m, w->n,
                w->query + (size_t)m * n * (size_t)s->d, &p);
  memset(d_phi, 0, n * (size_t)o->rank * sizeof *d_phi);
  for (int t = o->budget; t < w->n; t++)
    row(w, x, logits(w, m, t), w->kept + (size_t)t * n, p.y + t * o->rank, t, u,
        q->gradient ? d_phi + t * o->rank : NULL, each);
  if (q->gradient) kv_less_back(&p, d_phi);
  q->scratch->used = used;
}

static kv_rc take(work *w, kv_err *e) {
  const kv_less_params *o = w->q->t->params;
  const kv_shape *s = &w->q->piece->of->trace->shape;
  kv_scratch *x = w->q->scratch;
  size_t n = (size_t)w->n, d = (size_t)s->d, d_v = (size_t)s->d_v,
         group = (size_t)w->group;
  size_t own = n * (d + d_v + group * (d + n) + n / 4 + 4) + 6 * d_v + 512;
  kv_rc rc = kv_scratch_reserve(
      x, own + 2 * kv_less_room(o, w->n) + n * (8 * (size_t)o->rank + 2), e);
  if (rc) return rc;
  w->k = kv_scratch_take(x, n * d);
  w->v = kv_scratch_take(x, n * d_v);
  w->query = kv_scratch_take(x, group * n * d);
  w->s = kv_scratch_take(x, group * n * n);
  w->kept = kv_scratch_take(x, (n * n + 3) / 4);
  w->acc = kv_scratch_take(x, n);
  w->p = kv_scratch_take(x, n);
  w->top = kv_scratch_take(x, (n + 3) / 4);
  w->full = kv_scratch_take(x, 6 * d_v);
  w->sparse = w->full + d_v;
  w->rest = w->sparse + d_v;
  return KV_OK;
}

static kv_rc learn(const kv_train_task *q, kv_train_loss *out, kv_err *e) {
  const kv_less_params *o = q->t->params;
  const kv_trace *t = q->piece->of->trace;
  int n = q->piece->count < o->context ? q->piece->count : o->context;
  work w = {.q = q, .n = n, .group = kv_group(&t->shape), .out = out};
  *out = (kv_train_loss){0};
  if (n <= o->budget || t->layer[q->at].data.rows) return KV_OK;
  kv_rc rc = take(&w, e);
  for (int g = 0; !rc && g < t->shape.n_kv_heads; g++) {
    size_t used = q->scratch->used;
    kv_less_keys x;
    read_head(&w, g);
    choose(&w);
    kv_less_keys_forth(q, g, n, w.k, &x);
    for (int m = 0; m < w.group; m++) query_head(&w, &x, g, m);
    if (q->gradient) kv_less_keys_back(q, g, &x);
    q->scratch->used = used;
  }
  return rc;
}

static kv_rc tell(const kv_training *t, kv_st_writer *w, kv_err *e) {
  const kv_less_params *o = t->params;
  char text[16];
  snprintf(text, sizeof text, "%d", o->budget);
  return kv_st_writer_meta(w, "trained_budget", text, e);
}

const kv_trainer kv_trainer_less = {
    .name = "less",
    .title = "perceptrons whose state stands for dropped tokens",
    .format = "kvreplay-less",
    .params = table,
    .params_size = sizeof(kv_less_params),
    .pace = {.rate = 1e-3, .fall = KV_FALL_HALF, .every = 10, .passes = 40},
    .dtype = KV_ST_F16,
    .open = open,
    .begin = begin,
    .learn = learn,
    .tell = tell,
};
