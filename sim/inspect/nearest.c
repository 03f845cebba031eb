/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_nearest_open: sim/inspect/nearest.h. Blocks of tokens are dealt to
 * threads; a token's lists are its own.
 */
#include "sim/inspect/nearest.h"

#include <stdlib.h>

#include "ref/ground/arith.h"
#include "ref/ground/float.h"

enum { ROWS = 16, LISTS = KV_NEAREST_LISTS, MOST = KV_NEAREST_MOST };

const int kv_nearest_stride[LISTS] = {1, 5, 10, 20, 40};

typedef struct job {
  const kv_kernels *kernel;
  int n, width;
  size_t stride;    /* from a row to the next */
  const float *row; /* what is compared: rows, or rows of unit length */
  const void **key; /* [n] the same */
  float *square;    /* [n] b.b, by cosine 0 */
  const kv_nearest *out;
} job;

/* A list in hand: the least ranks, ascending. */
typedef struct list {
  int n;
  float rank[MOST];
  int32_t *at;
} list;

static void put(list *x, float rank, int32_t j) {
  int i = x->n < MOST ? x->n++ : MOST - 1;
  for (; i > 0 && rank < x->rank[i - 1]; i--) {
    x->rank[i] = x->rank[i - 1];
    x->at[i] = x->at[i - 1];
  }
  x->rank[i] = rank;
  x->at[i] = j;
}

static bool takes(const list *x, float rank) {
  return x->n < MOST || rank < x->rank[MOST - 1];
}

/* dot: with every earlier token. False: no rank is finite. */
static bool search(const job *w, int t, const float *dot) {
  list x[LISTS] = {{0}};
  for (int l = 0; l < LISTS; l++)
    x[l].at = w->out->at + ((size_t)t * LISTS + (size_t)l) * MOST;
  for (int j = 0; j < t; j++) {
    float rank = w->square[j] - 2 * dot[j]; /* doubling is exact: one fma */
    if (!kv_finite(rank)) continue;
    for (int l = 0; l < LISTS; l++)
      if (takes(&x[l], rank) && kv_nearest_is_reference(j, l))
        put(&x[l], rank, j);
  }
  return x[0].n > 0;
}

/* Tokens of one block; the first of which nothing is finite, or -1. */
static int do_block(const job *w, int first, float *s, float *pack) {
  int m = w->n - first < ROWS ? w->n - first : ROWS, bad = -1;
  w->kernel->logits(m, first + m - 1, w->width,
                    w->row + (size_t)first * w->stride, w->stride, w->key,
                    KV_F32, 1.0f, s, (size_t)w->n, pack);
  for (int i = m - 1; i >= 0; i--)
    if (!search(w, first + i, s + (size_t)i * (size_t)w->n)) bad = first + i;
  return bad;
}

static kv_rc do_blocks(const job *w, int threads, kv_err *e) {
  int lacking = 0, bad = w->n;
#pragma omp parallel num_threads(threads) reduction(+ : lacking)               \
    reduction(min : bad)
  {
    size_t room = (size_t)ROWS * (size_t)w->n * sizeof(float);
    size_t packed = (size_t)KV_PACK * (size_t)w->width * sizeof(float);
    float *s = aligned_alloc(64, (room + 63) / 64 * 64);
    float *pack = aligned_alloc(64, (packed + 63) / 64 * 64);
    kv_float_ground();
    lacking += !s || !pack;
#pragma omp for schedule(dynamic)
    for (int first = KV_NEAREST_FROM; first < w->n; first += ROWS) {
      int t = s && pack ? do_block(w, first, s, pack) : -1;
      if (t >= 0 && t < bad) bad = t;
    }
    free(s);
    free(pack);
  }
  if (lacking) return kv_no_memory(e, "distances between tokens", 0);
  if (bad == w->n) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "no distance of token %d to an earlier one is finite: its "
                 "keys and values are too large to compare",
                 bad);
}

/* Squares of lengths; by cosine rows of unit length, and no squares. */
static void prepare(job *w, const kv_token_rows *r, kv_nearness how,
                    float *unit) {
  for (int t = 0; t < w->n; t++) {
    const float *row = kv_token_row(r, t);
    float square = 0;
    double sum = 0;
    for (int i = 0; i < w->width; i++) {
      square = kv_fma(row[i], row[i], square);
      sum += (double)row[i] * (double)row[i];
    }
    w->square[t] = how == KV_BY_COSINE ? 0 : square;
    w->key[t] = row;
    if (how != KV_BY_COSINE) continue;
    float *to = unit + (size_t)t * (size_t)w->width;
    for (int i = 0; i < w->width && sum > 0; i++)
      to[i] = (float)((double)row[i] / __builtin_sqrt(sum));
    w->key[t] = to;
  }
}

kv_rc kv_nearest_open(const kv_token_rows *r, int width, kv_nearness how,
                      const kv_kernels *kernel, int threads, kv_nearest *out,
                      kv_err *e) {
  size_t n = (size_t)r->n, all = n * LISTS * MOST, units = n * (size_t)width;
  float *unit = how == KV_BY_COSINE ? kv_zalloc(units, sizeof *unit) : NULL;
  job w = {.kernel = kernel,
           .n = r->n,
           .width = width,
           .stride = unit ? (size_t)width : (size_t)r->width,
           .row = unit ? unit : r->row,
           .key = kv_zalloc(n, sizeof *w.key),
           .square = kv_zalloc(n, sizeof *w.square),
           .out = out};
  out->at = kv_zalloc(all, sizeof *out->at);
  kv_rc rc = KV_OK;
  if (!w.key || !w.square || !out->at || (how == KV_BY_COSINE && !unit)) {
    rc = kv_no_memory(e, "the nearest tokens", all * sizeof *out->at);
  } else {
    for (size_t i = 0; i < all; i++) out->at[i] = -1;
    prepare(&w, r, how, unit);
    rc = do_blocks(&w, threads, e);
  }
  free(w.key);
  free(w.square);
  free(unit);
  return rc;
}

void kv_nearest_close(kv_nearest *n) {
  free(n->at);
  n->at = NULL;
}
