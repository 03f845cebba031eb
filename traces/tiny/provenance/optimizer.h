/* SPDX-License-Identifier: Apache-2.0
 *
 * Muon (momentum, then five Newton-Schulz steps towards the nearest matrix
 * with singular values of 1; Jordan et al. 2024) for the matrices inside the
 * layers, AdamW for embedding, head and gains.  One step is JOBS independent
 * calls of optimize, which threads share, each with a muon_room of its own.
 */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H
#include "model.h"
typedef struct {
  float *w, *grad, *m, *v; /* [SIZE] weights, gradient, first moment, second
                              (of AdamW alone) */
} state;
typedef struct { /* learning rates of one step */
  float lr;      /* of Muon */
  float adam;    /* of embedding and head */
  float wd;      /* weight decay, times lr, or for the head a tenth of it times
                    adam; none of embedding and gains */
  float gain;    /* of gains */
} rates;
typedef struct {  /* scratch of one thread, matrices of at most 512 x 512 */
  b16 *x, *y, *t; /* X, A = X X^T, and the polynomial of A */
  pair *p;        /* a packed operand */
  float *f, *h;   /* the update; the gradient, or A A */
} muon_room;

static muon_room muon_new(void) {
  enum { B = 512 * 512 };
  return (muon_room){room(B * 2), room(B * 2), room(B * 2),
                     room(B * 2), room(B * 4), room(B * 4)};
}
/* f [r][c], r <= c: replaced by its orthogonal factor, nearly */
static void newton_schulz(muon_room *k, long r, long c) {
  float s = 1e-7f;
  for (long i = 0; i < r * c; i++) s += k->f[i] * k->f[i];
  s = 1 / sqrtf(s);
  for (long i = 0; i < r * c; i++) k->f[i] *= s;
  for (int step = 0; step < 5; step++) {
    to_half(k->f, r * c, k->x);
    pack_t(k->x, r, c, k->p);
    rows_by(k->x, k->p, r, r, c, k->y, r, HALF); /* A = X X^T */
    pack_n(k->y, r, r, r, k->p);
    rows_by(k->y, k->p, r, r, r, k->h, r, STORE); /* A A */
    for (long i = 0; i < r * r; i += 16)
      stb(k->t + i,
          _mm512_fmadd_ps(
              _mm512_set1_ps(2.0315f), _mm512_loadu_ps(k->h + i),
              _mm512_mul_ps(_mm512_set1_ps(-4.7750f), ldb(k->y + i))));
    pack_n(k->x, r, c, c, k->p);
    for (long i = 0; i < r * c; i++) k->f[i] *= 3.4445f;
    rows_by(k->t, k->p, r, c, r, k->f, c, ADD);
  }
}
/* out [c][r] = a [r][c], r a multiple of 16 */
static void transpose(const float *a, long r, long c, float *out) {
  for (long i = 0; i < r; i += 16)
    for (long j = 0; j < c; j++)
      for (long x = 0; x < 16; x++) out[j * r + i + x] = a[(i + x) * c + j];
}
/* a step of the matrix [r][c] at offset `from` */
static void muon(state s, long from, long r, long c, rates q, muon_room *k) {
  float *m = s.m + from, *g = s.grad + from, *w = s.w + from;
  for (long i = 0; i < r * c; i++) {
    m[i] = .95f * m[i] + g[i];
    k->h[i] = g[i] + .95f * m[i];
  }
  int tall = r > c;
  if (tall)
    transpose(k->h, r, c, k->f);
  else
    memcpy(k->f, k->h, (size_t)r * c * 4);
  newton_schulz(k, tall ? c : r, tall ? r : c);
  if (tall) {
    memcpy(k->h, k->f, (size_t)r * c * 4);
    transpose(k->h, c, r, k->f);
  }
  float keep = 1 - q.lr * q.wd, step = q.lr * (tall ? sqrtf((float)r / c) : 1);
  for (long i = 0; i < r * c; i++) w[i] = w[i] * keep - step * k->f[i];
}
/* a step of n weights at offset `from`; t: number of the step, from 1 */
static void adam(state s, long from, long n, float lr, float wd, long t) {
  float c1 = 1 - powf(.9f, t), c2 = 1 - powf(.98f, t);
  for (long i = from; i < from + n; i++) {
    s.m[i] = .9f * s.m[i] + .1f * s.grad[i];
    s.v[i] = .98f * s.v[i] + .02f * s.grad[i] * s.grad[i];
    s.w[i] -= lr * (s.m[i] / c1 / (sqrtf(s.v[i] / c2) + 1e-9f) + wd * s.w[i]);
  }
}
/* Seven matrices a layer, embedding, head, last norm, and the layers' gains. */
enum { JOBS = 7 * L + 4 };
/* Does job 0 .. JOBS - 1 of step t, from 1. */
static void optimize(int job, state s, rates q, long t, muon_room *k) {
  static const struct {
    int what, skip, r, c;
  } M[7] = {{WQKV, 0, H * D, C},
            {WQKV, H * D * C, KV * D, C},
            {WQKV, (H + KV) * D * C, KV * D, C},
            {WO, 0, C, H * D},
            {WGU, 0, F, C},
            {WGU, F * C, F, C},
            {WD, 0, C, F}};
  if (job < 7 * L) {
    int i = job % 7;
    muon(s, at(job / 7, M[i].what) + M[i].skip, M[i].r, M[i].c, q, k);
  } else if (job == 7 * L)
    adam(s, EMBED, V * C, q.adam, 0, t);
  else if (job == 7 * L + 1)
    adam(s, HEAD, V * C, q.adam, q.wd * .1f, t);
  else if (job == 7 * L + 2)
    adam(s, NORM, C, q.gain, 0, t);
  else
    for (int l = 0; l < L; l++) adam(s, at(l, 0), WQKV, q.gain, 0, t);
}
#endif
