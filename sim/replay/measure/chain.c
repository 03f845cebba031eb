/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains of sums (sim/replay/measure/chain.h). Four sums run side by side in
 * named variables: an array would live in memory, and each addition would wait
 * for a store.
 */
#include "sim/replay/measure/chain.h"

#include "ref/ground/arith.h"
#include <math.h>
#include <string.h>

_Static_assert(KV_TOGETHER == 4, "the sums below are written out");

void kv_chain_sum(int n, const float *const p[KV_TOGETHER],
                  double sum[KV_TOGETHER]) {
  const float *p0 = p[0], *p1 = p[1], *p2 = p[2], *p3 = p[3];
  double a = 0, b = 0, c = 0, d = 0;
  for (int t = 0; t < n; t++) {
    a += (double)p0[t];
    b += (double)p1[t];
    c += (double)p2[t];
    d += (double)p3[t];
  }
  sum[0] = a;
  sum[1] = b;
  sum[2] = c;
  sum[3] = d;
}

void kv_chain_gap(int n, const float *const p[KV_TOGETHER],
                  const double *const q[KV_TOGETHER], double sum[KV_TOGETHER]) {
  const float *p0 = p[0], *p1 = p[1], *p2 = p[2], *p3 = p[3];
  const double *q0 = q[0], *q1 = q[1], *q2 = q[2], *q3 = q[3];
  double a = 0, b = 0, c = 0, d = 0;
  for (int t = 0; t < n; t++) {
    a += fabs((double)p0[t] - q0[t]);
    b += fabs((double)p1[t] - q1[t]);
    c += fabs((double)p2[t] - q2[t]);
    d += fabs((double)p3[t] - q3[t]);
  }
  sum[0] = a;
  sum[1] = b;
  sum[2] = c;
  sum[3] = d;
}

/* Three sums of four heads in one walk. The terms of a block of tokens are
 * computed first, in parallel, because they do not depend on each other. Then
 * the twelve chains add them in order. */

_Static_assert(KV_TOGETHER == 4, "the sums below are written out");

enum { BLOCK = 32 }; /* listed tokens: their terms fit in the L1 cache */

typedef struct terms {
  double mass[KV_TOGETHER][BLOCK], kl[KV_TOGETHER][BLOCK],
      gap[KV_TOGETHER][BLOCK];
} terms;

/* The p of `count` tokens: in place if they are consecutive, else gathered. */
static const float *of_tokens(const float *x, const int32_t *token, int count,
                              float *room) {
  if (count == BLOCK && token[BLOCK - 1] - token[0] == BLOCK - 1)
    return x + token[0];
  for (int i = 0; i < count; i++) room[i] = x[token[i]];
  return room;
}

/* The loop has a constant length so that compilers vectorize it. */
static void fill(const float *share, const float *log_share, const float *p,
                 const float *log_p, double *mass, double *kl, double *gap) {
  for (int i = 0; i < BLOCK; i++) {
    double y = (double)share[i], x = (double)p[i];
    double term = y * ((double)log_share[i] - (double)log_p[i]);
    mass[i] = x;
    kl[i] = share[i] >= 0x1p-126f ? term : 0;
    gap[i] = fabs(x - y);
  }
}

/* The chains of a head, in named variables: see above. */
#define ADD_MASS(h) mass##h += t->mass[h][i]
#define ADD_KL(h) kl##h += t->kl[h][i]
#define ADD_GAP(h) gap##h += t->gap[h][i]
#define ADD_P(h) gap##h += (double)p[h][at]
#define EACH(x) x(0), x(1), x(2), x(3)
#define OPEN(h)                                                                \
  double mass##h = sum[h].mass, kl##h = sum[h].kl, gap##h = sum[h].gap
#define CLOSE(h)                                                               \
  sum[h] = (kv_walked) { mass##h, kl##h, gap##h }

/* Adds the terms of `count` listed tokens. Before each it adds the p of the
 * tokens not listed, from token `at` on. Returns the token after the last. */
static int add(const terms *t, int at, int count, const int32_t *token,
               const float *const p[KV_TOGETHER], kv_walked *sum) {
  OPEN(0);
  OPEN(1);
  OPEN(2);
  OPEN(3);
  for (int i = 0; i < count; i++, at++) {
    for (; at < token[i]; at++) EACH(ADD_P);
    EACH(ADD_MASS), EACH(ADD_KL), EACH(ADD_GAP);
  }
  EACH(CLOSE);
  return at;
}

/* Adds the p of the tokens after the last one listed. */
static void add_rest(int at, int n, const float *const p[KV_TOGETHER],
                     kv_walked *sum) {
  OPEN(0);
  OPEN(1);
  OPEN(2);
  OPEN(3);
  for (; at < n; at++) EACH(ADD_P);
  EACH(CLOSE);
}

void kv_chain_walk(int n, int m, const int32_t *token,
                   const float *const share[KV_TOGETHER],
                   const float *const log_share[KV_TOGETHER],
                   const float *const p[KV_TOGETHER],
                   const float *const log_p[KV_TOGETHER],
                   kv_walked sum[KV_TOGETHER]) {
  terms t;
  float room[4][BLOCK] = {{0}};
  int at = 0;
  memset(sum, 0, KV_TOGETHER * sizeof *sum);
  for (int from = 0, count; from < m; from += count) {
    count = m - from < BLOCK ? m - from : BLOCK;
    for (int h = 0; h < KV_TOGETHER; h++) {
      const float *y = share[h] + from, *log_y = log_share[h] + from;
      if (count < BLOCK) {
        memcpy(room[2], y, (size_t)count * sizeof *y);
        memcpy(room[3], log_y, (size_t)count * sizeof *y);
        y = room[2];
        log_y = room[3];
      }
      fill(y, log_y, of_tokens(p[h], token + from, count, room[0]),
           of_tokens(log_p[h], token + from, count, room[1]), t.mass[h],
           t.kl[h], t.gap[h]);
    }
    at = add(&t, at, count, token + from, p, sum);
  }
  add_rest(at, n, p, sum);
}
