/* SPDX-License-Identifier: Apache-2.0
 *
 * The model: Qwen3's layout (RMS norm before attention and MLP, RMS norm of q
 * and k per head, SwiGLU, untied head), its loss and its gradient, for one
 * thread and TOKENS tokens at a time.  Weights lie in one array of floats
 * (offsets below); products read bfloat16 copies packed once a step.  A step of
 * train.c: repack_one for every matrix, then for each batch forward, loss_back
 * and backward, then optimizer.h.
 */
#ifndef MODEL_H
#define MODEL_H
#include "attention.h"
enum {
  C = 256,      /* width of the residual stream */
  F = 384,      /* of the MLP */
  L = 6,        /* layers */
  V = 260,      /* tokens of the vocabulary */
  VP = 320,     /* the same, padded to whole panels */
  TOKENS = 2048 /* at a time, in one or several sequences */
};
/* Offsets into the array of weights: embedding [V][C], head [VP][C], last norm
 * [C], layers. */
enum {
  EMBED = 0,
  HEAD = EMBED + V * C,
  NORM = HEAD + VP * C,
  LAYERS = NORM + C
};
/* And into a layer: gains [C], [C], [D], [D]; W of qkv [QKV][C], of the output
 * [C][H*D], of gate and up [2 F][C], of down [C][F]. */
enum {
  LN1 = 0,
  LN2 = LN1 + C,
  QN = LN2 + C,
  KN = QN + D,
  WQKV = KN + D,
  WO = WQKV + QKV * C,
  WGU = WO + C * H * D,
  WD = WGU + 2 * F * C,
  LAYER = WD + C * F,
  SIZE = LAYERS + L * LAYER
};
/* Offset of a layer's weights `what`. */
static inline long at(int l, int what) {
  return LAYERS + (long)l * LAYER + what;
}

typedef struct {
  pair *fwd, *back; /* for y = x W^T; for dx = dy W */
} packed;
typedef struct { /* all matrices; read by all threads */
  packed qkv[L], o[L], gu[L], d[L], head;
} packs;
typedef struct {      /* one thread's activations and gradients, N = TOKENS */
  float *x1[L + 1];   /* [N][C] stream before each layer, and after the last */
  float *x2[L];       /* [N][C] stream after attention */
  float *lse[L];      /* as attn_fwd leaves it, sequence by sequence */
  float *logits;      /* [N][VP] */
  float *dx, *dh;     /* [N][C] gradient of the stream; of a norm's output */
  float *grad;        /* [SIZE] of the weights, which backward adds to */
  b16 *h1[L], *h2[L]; /* [N][C] normed input of attention and of the MLP */
  b16 *qkv[L], *o[L]; /* [N][QKV], [N][H*D] */
  b16 *gu[L], *m[L];  /* [N][2 F] gate and up, [N][F] SiLU of gate times up */
  b16 *hf;            /* [N][C] normed input of the head */
  b16 *da, *db, *dc;  /* [N][1024] scratch; db also has the logits' gradient */
  attn_room a;
  double bos[L][H];  /* mass on token 0, summed by attn_fwd */
  double loss;       /* for the caller */
  double penalty[L]; /* of quiet_heads, mean over heads, summed over tokens,
                        before lambda and scale */
} work;

/* Allocate; nothing is freed before the program ends. */
static packed packed_new(long n, long k) {
  return (packed){room(n * k * 2), room(n * k * 2)};
}
static packs packs_new(void) {
  packs p = {.head = packed_new(VP, C)};
  for (int l = 0; l < L; l++) {
    p.qkv[l] = packed_new(QKV, C), p.o[l] = packed_new(C, H * D);
    p.gu[l] = packed_new(2 * F, C), p.d[l] = packed_new(C, F);
  }
  return p;
}
/* w [n][k] into both forms of p; tmp: [n][k] */
static void repack(const float *w, long n, long k, packed p, b16 *tmp) {
  for (long i = 0; i < n * k; i += 16) stb(tmp + i, _mm512_loadu_ps(w + i));
  pack_t(tmp, n, k, p.fwd), pack_n(tmp, n, k, k, p.back);
}
/* packs matrix i of 4 L + 1, so that threads can share them */
static void repack_one(int i, const float *w, packs *p, b16 *tmp) {
  int l = i / 4;
  if (l == L)
    repack(w + HEAD, VP, C, p->head, tmp);
  else if (i % 4 == 0)
    repack(w + at(l, WQKV), QKV, C, p->qkv[l], tmp);
  else if (i % 4 == 1)
    repack(w + at(l, WO), C, H * D, p->o[l], tmp);
  else if (i % 4 == 2)
    repack(w + at(l, WGU), 2 * F, C, p->gu[l], tmp);
  else
    repack(w + at(l, WD), C, F, p->d[l], tmp);
}
static work work_new(void) {
  enum { N = TOKENS };
  work w = {.logits = room(N * VP * 4),
            .dx = room(N * C * 4),
            .dh = room(N * C * 4),
            .grad = room(SIZE * 4),
            .hf = room(N * C * 2),
            .da = room(N * 1024 * 2),
            .db = room(N * 1024 * 2),
            .dc = room(N * 1024 * 2),
            .a = attn_new()};
  for (int l = 0; l <= L; l++) w.x1[l] = room(N * C * 4);
  for (int l = 0; l < L; l++)
    w.x2[l] = room(N * C * 4), w.lse[l] = room(N * H * 4),
    w.h1[l] = room(N * C * 2), w.qkv[l] = room(N * QKV * 2),
    w.o[l] = room(N * H * D * 2), w.h2[l] = room(N * C * 2),
    w.gu[l] = room(N * 2 * F * 2), w.m[l] = room(N * F * 2);
  return w;
}
/* 1 / root of the mean square of x[C] */
static inline float rms(const float *x) {
  float s = 0;
  for (int i = 0; i < C; i++) s += x[i] * x[i];
  return 1 / sqrtf(s / C + EPS);
}
/* y = x * rms(x) * g for n rows of C */
static void norm(const float *x, const float *g, long n, b16 *y) {
  for (long t = 0; t < n; t++, x += C, y += C) {
    __m512 r = _mm512_set1_ps(rms(x));
    for (int i = 0; i < C; i += 16)
      stb(y + i, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), r),
                               _mm512_loadu_ps(g + i)));
  }
}
/* dx += gradient through norm of dh; dg [C] is added to, too */
static void norm_back(const float *x, const float *g, const float *dh, long n,
                      float *dx, float *dg) {
  for (long t = 0; t < n; t++, x += C, dh += C, dx += C) {
    float r = rms(x), m = 0;
    for (int i = 0; i < C; i++) {
      m += dh[i] * g[i] * x[i];
      dg[i] += dh[i] * x[i] * r;
    }
    m *= r * r / C;
    for (int i = 0; i < C; i++) dx[i] += r * (dh[i] * g[i] - x[i] * m);
  }
}
/* n floats, a multiple of 16, to bfloat16 */
static void to_half(const float *x, long n, b16 *y) {
  for (long i = 0; i < n; i += 16) stb(y + i, _mm512_loadu_ps(x + i));
}
static inline __m512 sigmoid(__m512 x) {
  __m512 one = _mm512_set1_ps(1);
  return _mm512_div_ps(
      one, _mm512_add_ps(one, exp16(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}
/* logits of n tokens in sequences of T; ids[b * stride + t] is token t of
 * sequence b; want_bos: also add to k->bos */
static void forward(work *k, const float *w, const packs *p,
                    const uint16_t *ids, long stride, long n, long T,
                    const rope_table *rt, int want_bos) {
  for (long t = 0; t < n; t++)
    memcpy(k->x1[0] + t * C, w + EMBED + ids[t / T * stride + t % T] * C,
           C * 4);
  for (int l = 0; l < L; l++) {
    norm(k->x1[l], w + at(l, LN1), n, k->h1[l]);
    rows_by(k->h1[l], p->qkv[l].fwd, n, QKV, C, k->qkv[l], QKV, HALF);
    for (long b = 0; b < n / T; b++)
      attn_fwd(&k->a, k->qkv[l] + b * T * QKV, T, w + at(l, QN), w + at(l, KN),
               rt, k->o[l] + b * T * H * D, k->lse[l] + b * T * H,
               want_bos ? k->bos[l] : NULL);
    memcpy(k->x2[l], k->x1[l], (size_t)n * C * 4);
    rows_by(k->o[l], p->o[l].fwd, n, C, H * D, k->x2[l], C, ADD);
    norm(k->x2[l], w + at(l, LN2), n, k->h2[l]);
    rows_by(k->h2[l], p->gu[l].fwd, n, 2 * F, C, k->gu[l], 2 * F, HALF);
    for (long t = 0; t < n; t++)
      for (int i = 0; i < F; i += 16) {
        __m512 g = ldb(k->gu[l] + t * 2 * F + i),
               u = ldb(k->gu[l] + t * 2 * F + F + i);
        stb(k->m[l] + t * F + i,
            _mm512_mul_ps(_mm512_mul_ps(g, sigmoid(g)), u));
      }
    memcpy(k->x1[l + 1], k->x2[l], (size_t)n * C * 4);
    rows_by(k->m[l], p->d[l].fwd, n, C, F, k->x1[l + 1], C, ADD);
  }
  norm(k->x1[L], w + NORM, n, k->hf);
  rows_by(k->hf, p->head.fwd, n, VP, C, k->logits, VP, STORE);
}
/* cross entropy of each token's successor, weighted by code[t] / 50; writes its
 * gradient times scale to db and returns the weighted sum */
static double loss_back(work *k, const uint16_t *ids, const uint8_t *code,
                        long stride, long n, long T, float scale) {
  double sum = 0;
  for (long t = 0; t < n; t++) {
    const float *z = k->logits + t * VP;
    float e[VP], m = -1e30f, s = 0, wt = code[t] / 50.f;
    int y = ids[t / T * stride + t % T + 1];
    for (int i = 0; i < V; i++) m = z[i] > m ? z[i] : m;
    for (int i = 0; i < V; i++) s += e[i] = expf(z[i] - m);
    sum += wt * (m + logf(s) - z[y]);
    for (int i = 0; i < VP; i++) e[i] = i < V ? e[i] / s * wt * scale : 0;
    e[y] -= wt * scale;
    to_half(e, VP, k->db + t * VP);
  }
  return sum;
}
/* A penalty on what attention adds to the stream of layer l, lambda times its
 * square relative to the stream's; writes the gradient of what attention added
 * to dh. */
static void quiet_stream(work *k, int l, long n, float lambda, float scale) {
  for (long t = 0; t < n; t++) {
    const float *a = k->x1[l] + t * C, *b = k->x2[l] + t * C;
    float s = 1e-6f, q = 0;
    for (int i = 0; i < C; i++)
      s += a[i] * a[i], q += (b[i] - a[i]) * (b[i] - a[i]);
    float f = 2 * lambda * scale / s;
    for (int i = 0; i < C; i++)
      k->dh[t * C + i] = k->dx[t * C + i] + f * (b[i] - a[i]);
  }
}
/* A penalty on the length of each head's output, in mean lengths of its values
 * (which the gradient leaves alone): a head with nothing to say is cheapest
 * where values are short. Adds its gradient to db, that of o [n][H*D]. */
static void quiet_heads(work *k, int l, long n, float lambda, float scale) {
  float mean[KV] = {0};
  for (long t = 0; t < n; t++)
    for (int g = 0; g < KV; g++) {
      __m512 s = _mm512_setzero_ps();
      for (int i = 0; i < D; i += 16) {
        __m512 v = ldb(k->qkv[l] + t * QKV + (H + KV + g) * D + i);
        s = _mm512_fmadd_ps(v, v, s);
      }
      mean[g] += sqrtf(_mm512_reduce_add_ps(s)) / n;
    }
  for (long t = 0; t < n; t++)
    for (int h = 0; h < H; h++) {
      b16 *o = k->o[l] + t * H * D + h * D, *d = k->db + t * H * D + h * D;
      __m512 s = _mm512_set1_ps(1e-6f);
      for (int i = 0; i < D; i += 16)
        s = _mm512_fmadd_ps(ldb(o + i), ldb(o + i), s);
      float len = sqrtf(_mm512_reduce_add_ps(s)), m = mean[h / G];
      k->penalty[l] += len / m / H;
      __m512 f = _mm512_set1_ps(lambda * scale / (m * (len + .02f * m)));
      for (int i = 0; i < D; i += 16)
        stb(d + i, _mm512_fmadd_ps(f, ldb(o + i), ldb(d + i)));
    }
}
/* adds the gradient of all weights to k->grad, after forward and loss_back with
 * the same arguments; stream and heads: lambda of the two penalties */
static void backward(work *k, const float *w, const packs *p,
                     const uint16_t *ids, long stride, long n, long T,
                     const rope_table *rt, float stream, float heads,
                     float scale) {
  float *g = k->grad;
  outer_add(k->db, k->hf, n, VP, C, g + HEAD);
  rows_by(k->db, p->head.back, n, C, VP, k->dh, C, STORE);
  memset(k->dx, 0, (size_t)n * C * 4);
  norm_back(k->x1[L], w + NORM, k->dh, n, k->dx, g + NORM);
  for (int l = L - 1; l >= 0; l--) {
    to_half(k->dx, n * C, k->da);
    rows_by(k->da, p->d[l].back, n, F, C, k->db, F, HALF);
    outer_add(k->da, k->m[l], n, C, F, g + at(l, WD));
    for (long t = 0; t < n; t++)
      for (int i = 0; i < F; i += 16) {
        __m512 x = ldb(k->gu[l] + t * 2 * F + i),
               u = ldb(k->gu[l] + t * 2 * F + F + i);
        __m512 d = ldb(k->db + t * F + i), s = sigmoid(x),
               si = _mm512_mul_ps(x, s);
        __m512 ds = _mm512_fmadd_ps(si, _mm512_sub_ps(_mm512_set1_ps(1), s), s);
        stb(k->dc + t * 2 * F + i, _mm512_mul_ps(_mm512_mul_ps(d, u), ds));
        stb(k->dc + t * 2 * F + F + i, _mm512_mul_ps(d, si));
      }
    rows_by(k->dc, p->gu[l].back, n, C, 2 * F, k->dh, C, STORE);
    outer_add(k->dc, k->h2[l], n, 2 * F, C, g + at(l, WGU));
    norm_back(k->x2[l], w + at(l, LN2), k->dh, n, k->dx, g + at(l, LN2));
    quiet_stream(k, l, n, stream, scale);
    to_half(k->dh, n * C, k->da);
    rows_by(k->da, p->o[l].back, n, H * D, C, k->db, H * D, HALF);
    if (heads > 0) quiet_heads(k, l, n, heads, scale);
    outer_add(k->da, k->o[l], n, C, H * D, g + at(l, WO));
    for (long b = 0; b < n / T; b++)
      attn_bwd(&k->a, k->qkv[l] + b * T * QKV, k->o[l] + b * T * H * D,
               k->db + b * T * H * D, k->lse[l] + b * T * H, T, w + at(l, QN),
               w + at(l, KN), rt, k->dc + b * T * QKV, g + at(l, QN),
               g + at(l, KN));
    rows_by(k->dc, p->qkv[l].back, n, C, QKV, k->dh, C, STORE);
    outer_add(k->dc, k->h1[l], n, QKV, C, g + at(l, WQKV));
    norm_back(k->x1[l], w + at(l, LN1), k->dh, n, k->dx, g + at(l, LN1));
  }
  for (long t = 0; t < n; t++) {
    float *e = g + EMBED + ids[t / T * stride + t % T] * C;
    for (int i = 0; i < C; i++) e[i] += k->dx[t * C + i];
  }
}
#endif
