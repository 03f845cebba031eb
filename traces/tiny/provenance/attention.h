/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention of one sequence with grouped queries, forward and backward,
 * for one thread: bfloat16 products, float32 sums.  RMS norm of each head's q
 * and k (gains of D values), then RoPE in the half layout, as Qwen3 has them.
 * Exponentials need no maximum: normed q and k bound a logit by 8 gq gk, and a
 * bfloat16 has a float's range (exp16 clamps at 80).
 */
#ifndef ATTENTION_H
#define ATTENTION_H
#include "gemm.h"
#include <math.h>
enum {
  D = 64,                 /* dimension of a head */
  H = 8,                  /* query heads */
  KV = 2,                 /* KV heads */
  G = H / KV,             /* query heads of a KV head */
  QKV = (H + 2 * KV) * D, /* a token's row of q, k and v: H, KV, KV heads */
  BLOCK = 64,             /* queries at once in the backward pass */
  LONGEST = 2048,         /* most tokens of a sequence; T is a multiple of 64 */
  LD = LONGEST + 48       /* between rows of probabilities: no multiple of a
                             page, so that rows lie in different cache sets */
};
#define EPS 1e-6f /* of the RMS norm */

/* Cosine and sine of the rotation, [position][pair]; filled by the caller. */
typedef struct {
  float cs[LONGEST][D / 2], sn[LONGEST][D / 2];
} rope_table;
/* Scratch of one thread, for the head in hand.  A d before a name: its
 * gradient; a t or n behind it: packed by pack_t or pack_n. */
typedef struct {
  b16 *q, *k, *v, *dob;    /* [T][D]; dob: gradient of the output */
  b16 *ds;                 /* [BLOCK][LD] gradient of the logits */
  pair *kt, *kn, *vt, *vn; /* k and v */
  pair *pp, *dsp;          /* [BLOCK / 2][LD] pairs of rows of p and ds */
  pair *qn, *don;          /* a block of q and dob */
  float *dk, *dv, *dq;     /* [T][D] */
  b16 *p;                  /* [8][LD] probabilities, not yet divided */
} attn_room;

static attn_room attn_new(void) {
  enum { T = LONGEST };
  attn_room a = {.q = room(T * D * 2),
                 .k = room(T * D * 2),
                 .v = room(T * D * 2),
                 .dob = room(T * D * 2),
                 .ds = room(BLOCK * LD * 2),
                 .kt = room(T * D * 2),
                 .kn = room(T * D * 2),
                 .vt = room(T * D * 2),
                 .vn = room(T * D * 2),
                 .pp = room(BLOCK / 2 * LD * 4),
                 .dsp = room(BLOCK / 2 * LD * 4),
                 .qn = room(BLOCK * D * 2),
                 .don = room(BLOCK * D * 2),
                 .dk = room(T * D * 4),
                 .dv = room(T * D * 4),
                 .dq = room(T * D * 4),
                 .p = room(8 * LD * 2)};
  return a;
}
/* one head of raw [T][ld] -> out [T][D]: norm, gain, RoPE, times mul */
static void norm_rope(const b16 *raw, long ld, long T, const float *gain,
                      const rope_table *rt, float mul, b16 *out) {
  for (long t = 0; t < T; t++) {
    float x[D], s = 0;
    for (int i = 0; i < D; i += 16)
      _mm512_storeu_ps(x + i, ldb(raw + t * ld + i));
    for (int i = 0; i < D; i++) s += x[i] * x[i];
    float r = mul / sqrtf(s / D + EPS), y[D];
    for (int i = 0; i < D; i++) x[i] *= r * gain[i];
    for (int i = 0; i < D / 2; i++) {
      float c = rt->cs[t][i], n = rt->sn[t][i];
      y[i] = x[i] * c - x[i + D / 2] * n;
      y[i + D / 2] = x[i + D / 2] * c + x[i] * n;
    }
    for (int i = 0; i < D; i += 16)
      stb(out + t * D + i, _mm512_loadu_ps(y + i));
  }
}
/* gradient dy [T][D] of norm_rope's output -> graw [T][ld] as bfloat16; dgain
 * [D] is added to */
static void norm_rope_back(const b16 *raw, long ld, long T, const float *gain,
                           const rope_table *rt, float mul, const float *dy,
                           float *dgain, b16 *graw) {
  for (long t = 0; t < T; t++) {
    float x[D], z[D], s = 0, m = 0;
    for (int i = 0; i < D; i += 16)
      _mm512_storeu_ps(x + i, ldb(raw + t * ld + i));
    for (int i = 0; i < D; i++) s += x[i] * x[i];
    float r = 1 / sqrtf(s / D + EPS);
    for (int i = 0; i < D / 2; i++) {
      float c = rt->cs[t][i], n = rt->sn[t][i], a = dy[t * D + i] * mul,
            b = dy[t * D + i + D / 2] * mul;
      z[i] = a * c + b * n;
      z[i + D / 2] = b * c - a * n;
    }
    for (int i = 0; i < D; i++) {
      dgain[i] += z[i] * x[i] * r;
      z[i] *= gain[i];
      m += z[i] * x[i];
    }
    m *= r * r / D;
    for (int i = 0; i < D; i++) z[i] = r * (z[i] - x[i] * m);
    for (int i = 0; i < D; i += 16)
      stb(graw + t * ld + i, _mm512_loadu_ps(z + i));
  }
}
/* p of tokens j .. j + 15, with 0 for those after token `row` */
static inline __m512 visible(__m512 p, long j, long row) {
  long n = row + 1 - j;
  __mmask16 m = n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
  return _mm512_maskz_mov_ps(m, p);
}
/* qkv [T][QKV] of one sequence -> o [T][H*D], lse [H][T] (log of the sum of
 * exponentials, which the backward pass needs).  gq and gk: gains [D].  bos, if
 * not NULL: [H], to which the mass on token 0 of rows from 64 on is added. */
static void attn_fwd(attn_room *a, const b16 *qkv, long T, const float *gq,
                     const float *gk, const rope_table *rt, b16 *o, float *lse,
                     double *bos) {
  __m512 acc[8][2];
  for (int g = 0; g < KV; g++) {
    norm_rope(qkv + (H + g) * D, QKV, T, gk, rt, 1, a->k);
    pack_t(a->k, T, D, a->kt);
    pack_n(qkv + (H + KV + g) * D, T, D, QKV, a->vn);
    for (int h = g * G; h < (g + 1) * G; h++) {
      norm_rope(qkv + h * D, QKV, T, gq, rt, 0.125f, a->q);
      for (long i = 0; i < T; i += 8) {
        long n = (i + 8 + 31) / 32 * 32;
        float z[8];
        __m512 sum[8];
        for (int r = 0; r < 8; r++) sum[r] = _mm512_setzero_ps();
        for (long j = 0; j < n; j += 32) {
          tile(D / 2, (pair *)(a->q + i * D), 1, D / 2, a->kt + j * (D / 2),
               acc);
          int edge = j + 32 > i + 1;
#pragma GCC unroll 8
          for (int r = 0; r < 8; r++)
#pragma GCC unroll 2
            for (int x = 0; x < 2; x++) {
              __m512 p = exp16(acc[r][x]);
              if (edge) p = visible(p, j + 16 * x, i + r);
              sum[r] = _mm512_add_ps(sum[r], p);
              stb(a->p + r * LD + j + 16 * x, p);
            }
        }
        for (int r = 0; r < 8; r++) {
          z[r] = _mm512_reduce_add_ps(sum[r]);
          lse[h * T + i + r] = logf(z[r]);
          if (bos && i + r >= 64) {
            b16 w = a->p[r * LD];
            uint32_t u = (uint32_t)w << 16;
            float f;
            memcpy(&f, &u, 4);
            bos[h] += f / z[r];
          }
        }
        for (int c = 0; c < D; c += 32) {
          tile(n / 2, (pair *)a->p, 1, LD / 2, a->vn + c * (T / 2), acc);
          for (int r = 0; r < 8; r++)
            for (int x = 0; x < 2; x++)
              stb(o + (i + r) * H * D + h * D + c + 16 * x,
                  _mm512_mul_ps(acc[r][x], _mm512_set1_ps(1 / z[r])));
        }
      }
    }
  }
}
/* one block of BLOCK queries from token i0 on, of the head in a: dq is written,
 * dk and dv are added to.  delta [T]: sum of o times its gradient */
static void attn_block(attn_room *a, long i0, long T, const float *lse,
                       const float *delta) {
  long n = i0 + BLOCK;
  __m512 acc[8][2];
  float s[8][32];
  for (long j = 0; j < n; j += 32)
    for (long i = i0; i < i0 + BLOCK; i += 8) {
      b16 pb[8][32], db[8][32];
      tile(D / 2, (pair *)(a->q + i * D), 1, D / 2, a->kt + j * (D / 2), acc);
      for (int r = 0; r < 8; r++)
        for (int x = 0; x < 2; x++) {
          __m512 p =
              exp16(_mm512_sub_ps(acc[r][x], _mm512_set1_ps(lse[i + r])));
          p = visible(p, j + 16 * x, i + r);
          _mm512_storeu_ps(s[r] + 16 * x, p);
          stb(pb[r] + 16 * x, p);
        }
      tile(D / 2, (pair *)(a->dob + i * D), 1, D / 2, a->vt + j * (D / 2), acc);
      for (int r = 0; r < 8; r++)
        for (int x = 0; x < 2; x++) {
          __m512 w = _mm512_mul_ps(
              _mm512_loadu_ps(s[r] + 16 * x),
              _mm512_sub_ps(acc[r][x], _mm512_set1_ps(delta[i + r])));
          stb(db[r] + 16 * x, w);
          stb(a->ds + (i - i0 + r) * LD + j + 16 * x, w);
        }
      for (int r = 0; r < 8; r += 2)
        for (int x = 0; x < 32; x += 16) {
          long at = ((i - i0 + r) / 2) * LD + j + x;
          _mm512_storeu_si512(a->pp + at, braid(pb[r] + x, pb[r + 1] + x));
          _mm512_storeu_si512(a->dsp + at, braid(db[r] + x, db[r + 1] + x));
        }
    }
  for (int c = 0; c < D; c += 32)
    for (int r = 0; r < BLOCK; r += 8) {
      tile(n / 2, (pair *)(a->ds + r * LD), 1, LD / 2, a->kn + c * (T / 2),
           acc);
      put(acc, a->dq + (i0 + r) * D + c, D, STORE);
    }
  pack_n(a->q + i0 * D, BLOCK, D, D, a->qn);
  pack_n(a->dob + i0 * D, BLOCK, D, D, a->don);
  for (int c = 0; c < D; c += 32)
    for (long j = 0; j < n; j += 8) {
      tile(BLOCK / 2, a->pp + j, LD, 1, a->don + c * (BLOCK / 2), acc);
      put(acc, a->dv + j * D + c, D, ADD);
      tile(BLOCK / 2, a->dsp + j, LD, 1, a->qn + c * (BLOCK / 2), acc);
      put(acc, a->dk + j * D + c, D, ADD);
    }
}
/* gradient dout [T][H*D] -> dqkv [T][QKV]; dgq and dgk [D] are added to.  qkv,
 * o and lse as attn_fwd had and left them */
static void attn_bwd(attn_room *a, const b16 *qkv, const b16 *o,
                     const b16 *dout, const float *lse, long T, const float *gq,
                     const float *gk, const rope_table *rt, b16 *dqkv,
                     float *dgq, float *dgk) {
  float delta[LONGEST];
  for (int g = 0; g < KV; g++) {
    const b16 *v = qkv + (H + KV + g) * D;
    norm_rope(qkv + (H + g) * D, QKV, T, gk, rt, 1, a->k);
    for (long t = 0; t < T; t++) memcpy(a->v + t * D, v + t * QKV, D * 2);
    pack_t(a->k, T, D, a->kt), pack_n(a->k, T, D, D, a->kn),
        pack_t(a->v, T, D, a->vt);
    memset(a->dk, 0, (size_t)T * D * 4), memset(a->dv, 0, (size_t)T * D * 4);
    for (int h = g * G; h < (g + 1) * G; h++) {
      norm_rope(qkv + h * D, QKV, T, gq, rt, 0.125f, a->q);
      for (long t = 0; t < T; t++) {
        __m512 s = _mm512_setzero_ps();
        for (int i = 0; i < D; i += 16)
          s = _mm512_fmadd_ps(ldb(o + t * H * D + h * D + i),
                              ldb(dout + t * H * D + h * D + i), s);
        delta[t] = _mm512_reduce_add_ps(s);
        memcpy(a->dob + t * D, dout + t * H * D + h * D, D * 2);
      }
      for (long i = 0; i < T; i += BLOCK)
        attn_block(a, i, T, lse + h * T, delta);
      norm_rope_back(qkv + h * D, QKV, T, gq, rt, 0.125f, a->dq, dgq,
                     dqkv + h * D);
    }
    norm_rope_back(qkv + (H + g) * D, QKV, T, gk, rt, 1, a->dk, dgk,
                   dqkv + (H + g) * D);
    for (long t = 0; t < T; t++)
      for (int i = 0; i < D; i += 16)
        stb(dqkv + t * QKV + (H + KV + g) * D + i,
            _mm512_loadu_ps(a->dv + t * D + i));
  }
}
#endif
