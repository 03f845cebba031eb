/* SPDX-License-Identifier: Apache-2.0
 *
 * What patterns look at: traces/prefill/hints.h.
 */
#include "traces/prefill/hints.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"

kv_rc kv_hints_init(kv_hints *x, const kv_grid *grid, const kv_trace *t, int i,
                    const kv_kernels *kernel, kv_err *e) {
  size_t n = (size_t)grid->tokens, pairs = (size_t)kv_grid_pairs(grid);
  size_t blocks = (size_t)grid->blocks, d = (size_t)t->shape.d;
  *x = (kv_hints){.t = t,
                  .data = &t->layer[i].data,
                  .kernel = kernel,
                  .column = kv_zalloc(n, sizeof *x->column),
                  .distance = kv_zalloc(n, sizeof *x->distance),
                  .pooled = kv_zalloc(pairs, sizeof *x->pooled),
                  .q = kv_zalloc(blocks * d, sizeof *x->q),
                  .k = kv_zalloc(blocks * d, sizeof *x->k),
                  .key = kv_zalloc(blocks, sizeof *x->key),
                  .row = kv_zalloc(d, sizeof *x->row),
                  .pack = kv_zalloc(KV_PACK * d, sizeof *x->pack)};
  x->of = (kv_pattern_of){grid, x->column, x->distance, x->pooled};
  if (x->column && x->distance && x->pooled && x->q && x->k && x->key &&
      x->row && x->pack)
    return kv_row_probs_init(&x->rows, &t->shape, x->data, kernel, (int)n, e);
  return kv_no_memory(e, "blocks of the prompt", pairs * sizeof *x->pooled);
}

void kv_hints_release(kv_hints *x) {
  kv_row_probs_release(&x->rows);
  free(x->column);
  free(x->distance);
  free(x->pooled);
  free(x->q);
  free(x->k);
  free(x->key);
  free(x->row);
  free(x->pack);
  *x = (kv_hints){0};
}

/* out[blocks][d]: means of the prompt's rows of one head, which stand one
 * behind another at `from`: a chain in order, divided once. */
static void pool(const kv_hints *x, kv_dtype type, const char *from,
                 float *out) {
  const kv_grid *g = x->of.grid;
  size_t d = (size_t)x->t->shape.d, size = d * kv_dtype_size(type);
  memset(out, 0, (size_t)g->blocks * d * sizeof *out);
  for (int s = 0; s < g->tokens; s++) {
    float *sum = out + (size_t)(s / g->block) * d;
    x->kernel->widen(type, from + (size_t)s * size, d, x->row);
    for (size_t c = 0; c < d; c++) sum[c] = kv_add(sum[c], x->row[c]);
  }
  for (int b = 0; b < g->blocks; b++, out += d) {
    int left = g->tokens - b * g->block;
    float n = (float)(left < g->block ? left : g->block);
    for (size_t c = 0; c < d; c++) out[c] = kv_div(out[c], n);
  }
}

static void pool_keys(kv_hints *x, int g) {
  const kv_shape *s = &x->t->shape;
  size_t d = (size_t)s->d, size = d * kv_dtype_size(s->dtype);
  const char *k = x->data->k;
  pool(x, s->dtype, k + (size_t)g * (size_t)s->n_tokens * size, x->k);
  for (int b = 0; b < x->of.grid->blocks; b++) x->key[b] = x->k + (size_t)b * d;
}

/* Products of means; false: one is not finite. */
static bool pool_head(kv_hints *x, int h) {
  const kv_grid *g = x->of.grid;
  size_t d = (size_t)x->t->shape.d;
  size_t size = d * kv_dtype_size(x->data->q_dtype);
  const char *q = x->data->q;
  bool finite = true, one;
  pool(x, x->data->q_dtype, q + (size_t)h * (size_t)x->data->n_rows * size,
       x->q);
  for (int i = 0; i < g->blocks; i++) {
    int n = i - g->from[i] + 1;
    float *s = x->pooled + g->first[i];
    x->kernel->logits(1, n, (int)d, x->q + (size_t)i * d, d,
                      x->key + g->from[i], KV_F32, 1.0f, s, (size_t)n, x->pack);
    x->kernel->max_finite(s, n, &one);
    finite &= one;
  }
  return finite;
}

/* Sums of the last rows; false: a logit is not finite. */
static bool sum_last(kv_hints *x, int h) {
  kv_row_probs *r = &x->rows;
  int n = x->of.grid->tokens, block = x->of.grid->block;
  memset(x->column, 0, (size_t)n * sizeof *x->column);
  memset(x->distance, 0, (size_t)n * sizeof *x->distance);
  for (int t = n > block ? n - block : 0; t < n; t++) {
    if (!kv_row_probs_take(r, t, 1)) return false;
    const float *p = r->p + (size_t)(h % r->group) * r->stride;
    for (int s = 0; s <= t; s++) {
      int64_t mass = kv_fix(p[s]);
      x->column[s] += mass;
      x->distance[t - s] += mass;
    }
  }
  return true;
}

kv_rc kv_hints_head(kv_hints *x, int h, kv_err *e) {
  int group = kv_group(&x->t->shape);
  if (h % group == 0) {
    kv_row_probs_head(&x->rows, h / group);
    pool_keys(x, h / group);
  }
  if (sum_last(x, h) && pool_head(x, h)) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d: a product of queries and keys of query head %d "
                 "is not finite",
                 x->t->path, x->data->layer, h);
}
