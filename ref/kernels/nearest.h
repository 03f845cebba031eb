/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel nearest (ref/kernels/kernels.h): the nearest of many rows to each
 * of a few tokens, by products that the tiles of ref/kernels/logits.h make. The
 * tokens are packed, the rows go past them a band at a time, and what is nearer
 * than the farthest that a token has so far takes its place. Part of
 * ref/kernels/kernels.c.
 */
#ifndef KV_REF_KERNELS_NEAREST_H
#define KV_REF_KERNELS_NEAREST_H

#include "ref/kernels/similar.h"

/* A call; k, n, which, found and value are its arguments. */
typedef struct nearest_search {
  float s[BAND * KV_PACK]; /* products of a band; 0 in columns without token */
  float farthest[KV_PACK]; /* of those that a token has; infinity: it has not
                              as many as it may */
  int k, n;
  float *value;
  int32_t *which, *found;
} nearest_search;

/* Enters row i, of distance v, among those of token j, the farthest of which
 * leaves where it has k already. */
static void nearest_enter(nearest_search *t, int j, int i, float v) {
  float *value = t->value + (size_t)j * (size_t)t->k;
  int32_t *which = t->which + (size_t)j * (size_t)t->k;
  int at = t->found[j] < t->k ? t->found[j]++ : t->k - 1;
  for (; at > 0 && value[at - 1] > v; at--) {
    value[at] = value[at - 1];
    which[at] = which[at - 1];
  }
  value[at] = v;
  which[at] = i;
  if (t->found[j] == t->k) t->farthest[j] = value[t->k - 1];
}

/* Row i against all tokens: s[KV_PACK] products, norm its own square norm. */
static void nearest_row(nearest_search *t, const float *s, float norm, int i,
                        const int32_t *seen) {
  float v[KV_PACK];
  uint64_t nearer = 0;
  UNROLL for (int x = 0; x < KV_PACK; x += LANES) {
    vec d = v_fma(v_one(-2.0f), v_load(s + x), v_one(norm));
    v_store(v + x, d);
    nearer |= v_above(v_sub(v_load(t->farthest + x), d), 0.0f) << x;
  }
  for (; nearer; nearer &= nearer - 1) {
    int j = __builtin_ctzll(nearer);
    if (j < t->n && i < seen[j]) nearest_enter(t, j, i, v[j]);
  }
}

static void nearest_of(int n, int d, const float *token, int rows,
                       const float *row, const float *norm, const int32_t *seen,
                       int k, int32_t *which, int32_t *found, float *value,
                       float *pack) {
  const void *key[KV_PACK];
  nearest_search t = {
      .k = k, .n = n, .value = value, .which = which, .found = found};
  problem p = {.d = d,
               .columns = n,
               .ldq = (size_t)d,
               .pack = pack,
               .scale = 1.0f,
               .s = t.s,
               .lds = KV_PACK,
               .row_bytes = (size_t)d * sizeof *row};
  for (int j = 0; j < KV_PACK; j++) t.farthest[j] = __builtin_inff();
  for (int j = 0; j < n; j++) {
    key[j] = token + (size_t)j * (size_t)d;
    found[j] = 0;
  }
  pack_keys(n, d, key, KV_F32, 1, pack, &p);
  for (int i = 0; i < rows; i += BAND) {
    int band = rows - i < BAND ? rows - i : BAND;
    similar_band(&p, row, i, band);
    for (int r = 0; r < band; r++)
      nearest_row(&t, t.s + r * KV_PACK, norm[i + r], i + r, seen);
  }
}

#endif
