/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel similar (ref/kernels/kernels.h): cosines of rows of unit length,
 * each pair once. A cosine is a chain of fma over x (arithmetic 5), computed by
 * the tiles of ref/kernels/logits.h, and is added to two sums as an integer.
 * Part of ref/kernels/kernels.c.
 *
 * A tile is BAND rows against at most KV_PACK columns. Its cosines stay in the
 * first-level cache while they are rounded, added and compared. A cosine is at
 * most a little above 1, so BAND of them stay within an int32.
 */
#ifndef KV_REF_KERNELS_SIMILAR_H
#define KV_REF_KERNELS_SIMILAR_H

enum { BAND = 64, SIMILAR_VECTORS = KV_PACK / LANES };

/* A call, and the current tile. */
typedef struct similarity {
  float s[BAND * KV_PACK]; /* of a tile; 0 in columns that do not exist */
  uint64_t above[BAND];    /* of each of its rows: columns above `least`, as
                              bits */
  int64_t column[KV_PACK]; /* sums of the columns, over rows before them */
  float least;
} similarity;

/* One row s[KV_PACK] of the tile: returns a bit for each column above t->least;
 * adds the row's cosines to *sum and, if `both`, each column's to `down`. */
INLINE uint64_t similar_row(const similarity *t, const float *s, bool both,
                            vint *down, int64_t *sum) {
  uint64_t above = 0;
  vint row = vi_one(0);
  UNROLL for (int v = 0; v < SIMILAR_VECTORS; v++) {
    vec x = v_load(s + v * LANES);
    vint fixed = v_nearest(v_mul(x, v_one(0x1p24f)));
    row = vi_add(row, fixed);
    if (both) down[v] = vi_add(down[v], fixed);
    above |= v_above(x, t->least) << (v * LANES);
  }
  *sum += vi_total(row);
  return above;
}

/* A band of rows before the columns, which begin at row `first`. sum and last
 * are those of the band's rows. */
static void similar_before(similarity *t, int first, int64_t *sum,
                           int32_t *last) {
  vint down[SIMILAR_VECTORS];
  UNROLL for (int v = 0; v < SIMILAR_VECTORS; v++) down[v] = vi_one(0);
  for (int r = 0; r < BAND; r++) {
    uint64_t above = similar_row(t, t->s + r * KV_PACK, true, down, &sum[r]);
    t->above[r] = above;
    if (above) last[r] = first + 63 - __builtin_clzll(above);
  }
  UNROLL for (int v = 0; v < SIMILAR_VECTORS; v++)
      vi_widen_add(vi_one(0), 0, down[v], t->column + v * LANES);
}

/* The columns' own rows: each pair occurs both ways, a row also with itself. */
static void similar_among(similarity *t, int rows, int first, int64_t *sum,
                          int32_t *last) {
  for (int r = 0; r < rows; r++) {
    t->s[r * KV_PACK + r] = 0;
    uint64_t above = similar_row(t, t->s + r * KV_PACK, false, NULL, &sum[r]);
    if (above) last[r] = first + 63 - __builtin_clzll(above);
  }
}

/* Sets each column's last row above the least, if the band has one. open: the
 * columns that exist. */
static void similar_find(const similarity *t, int i, uint64_t open,
                         int32_t *last) {
  for (int r = BAND - 1; r >= 0 && open; r--) {
    uint64_t found = t->above[r] & open;
    open &= ~found;
    for (; found; found &= found - 1) last[__builtin_ctzll(found)] = i + r;
  }
}

/* Rows i.. of a band against the columns; fetches the next rows meanwhile. */
static void similar_band(problem *p, const float *unit, int i, int rows) {
  const size_t d = (size_t)p->d;
  const void *from[2] = {unit + (size_t)i * d, unit + (size_t)(i + 1) * d};
  p->key = from; /* the others follow at the same distance (row_ahead) */
  p->known = 2;
  p->q = from[0];
  run_tiles(KV_F32, rows, p);
}

static void similar(int first, int n, int d, const float *unit, float least,
                    int64_t *sum, int32_t *last, float *pack) {
  const void *key[KV_PACK];
  similarity t = {.least = least};
  problem p = {.d = d,
               .columns = n,
               .ldq = (size_t)d,
               .pack = pack,
               .scale = 1.0f,
               .s = t.s,
               .lds = KV_PACK,
               .row_bytes = (size_t)d * sizeof *unit};
  uint64_t all = n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
  for (int j = 0; j < n; j++) key[j] = unit + (size_t)(first + j) * (size_t)d;
  pack_keys(n, d, key, KV_F32, 1, pack, &p);
  for (int i = 0; i < first; i += BAND) {
    similar_band(&p, unit, i, BAND);
    similar_before(&t, first, sum + i, last + i);
    similar_find(&t, i, all, last + first);
  }
  similar_band(&p, unit, first, n);
  similar_among(&t, n, first, sum + first, last + first);
  for (int j = 0; j < n; j++) sum[first + j] += t.column[j];
}

/* The kernel nearest (ref/kernels/kernels.h): the nearest of many rows to each
 * of a few tokens, by products of the tiles of ref/kernels/logits.h. The tokens
 * are packed and the rows processed a band at a time. A row nearer than a
 * token's farthest so far replaces that one. */

/* A call; k, n, which, found and value are its arguments. */
typedef struct nearest_search {
  float s[BAND * KV_PACK]; /* products of a band; 0 in columns without token */
  float farthest[KV_PACK]; /* largest v among the token's rows; infinity: fewer
                              than k */
  int k, n;
  float *value;
  int32_t *which, *found;
} nearest_search;

/* Inserts row i, of distance v, among those of token j. If it already has k,
 * the farthest is dropped. */
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

/* Row i against all tokens: s[KV_PACK] products; norm: its own square norm. */
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
