/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_latents_layer: sim/inspect/latent.h.
 */
#include "sim/inspect/latent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/parts/latents.h"
#include "sim/inspect/classes.h"
#include "traces/decisions/asset.h"

enum { FROM = KV_NEAREST_FROM, TILE = KV_LATENT_TILE };

typedef struct work {
  const kv_token_rows *rows;
  const kv_nearest *near;
  const kv_kernels *kernel;
  const kv_tensor *of;
  kv_compressor c;
  int n;           /* tokens that have z, in z[n][latent] */
  double raw;      /* their squares */
  float *x, *mean; /* [TILE][width] */
  float *hidden, *less, *pack, *z;
} work;

/* --- a tile ----------------------------------------------------------------
 */

/* Token t and the mean of its references are row i of the tile. */
static void take(work *w, int t, int i) {
  const int32_t *near = kv_nearest_of(w->near, t, KV_RESIDUAL_LIST);
  size_t width = (size_t)w->rows->width, at = (size_t)i * width;
  const float *token = kv_token_row(w->rows, t);
  int n = 0;
  while (n < KV_RESIDUAL_K && near[n] >= 0) n++;
  memcpy(w->x + at, token, width * sizeof *token);
  for (size_t x = 0; x < width; x++) {
    float sum = 0;
    for (int j = 0; j < n; j++) sum = sum + kv_token_row(w->rows, near[j])[x];
    w->mean[at + x] = sum / (float)n;
    w->raw += (double)token[x] * (double)token[x];
  }
}

static void code(work *w, int m) {
  size_t all = (size_t)m * (size_t)w->c.latent;
  float *z = w->z + (size_t)w->n * (size_t)w->c.latent;
  kv_compress(w->kernel, &w->c, w->of, m, w->x, w->hidden, z, w->pack);
  kv_compress(w->kernel, &w->c, w->of, m, w->mean, w->hidden, w->less, w->pack);
  for (size_t i = 0; i < all; i++) z[i] = z[i] - w->less[i];
  w->n += m;
}

static void code_all(work *w) {
  int m = 0;
  for (int t = FROM; t < w->rows->n; t++) {
    if (!kv_nearest_is_reference(t, KV_RESIDUAL_LIST)) take(w, t, m++);
    if (m == TILE || (m && t + 1 == w->rows->n)) {
      code(w, m);
      m = 0;
    }
  }
}

/* --- what is told of them ---------------------------------------------------
 */

static double square(int n, const float *z) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)z[i] * (double)z[i];
  return sum;
}

static void count(const work *w, kv_residual_stats *o) {
  int d = w->c.latent;
  double squares = 0;
  for (int i = 0; i < w->n; i++) {
    double one = square(d, w->z + (size_t)i * (size_t)d), norm = sqrt(one);
    squares += one;
    o->norm += norm;
    o->norms[kv_class_quarter(norm, KV_NORM_FIRST, KV_NORMS)]++;
  }
  double unit = sqrt(squares / ((double)w->n * d));
  for (size_t i = 0; i < (size_t)w->n * (size_t)d; i++)
    o->values[kv_class_line(unit > 0 ? 8 * (double)w->z[i] / unit : 0,
                            KV_VALUE_FIRST, KV_VALUES)]++;
  o->tokens = w->n;
  o->norm /= w->n;
  o->share = w->raw > 0 ? squares / w->raw : 0;
}

/* --- a layer ---------------------------------------------------------------
 */

static bool lacks(const void *asset, int layer) {
  return !kv_asset_layer(asset, layer)[KV_LATENT_IN].data;
}

static size_t deepest(const kv_compressor *c) {
  return (size_t)(c->width > c->hidden ? c->width : c->hidden);
}

static float *floats(size_t n) {
  return aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
}

static kv_rc open_work(work *w, kv_err *e) {
  size_t tile = TILE, width = (size_t)w->c.width, d = (size_t)w->c.latent;
  size_t tokens = (size_t)w->rows->n;
  w->x = floats(tile * width);
  w->mean = floats(tile * width);
  w->hidden = floats(tile * kv_compressor_hidden(&w->c));
  w->less = floats(tile * d);
  w->pack = floats(KV_PACK * deepest(&w->c));
  w->z = floats(tokens * d);
  if (w->x && w->mean && w->hidden && w->less && w->pack && w->z) return KV_OK;
  return kv_no_memory(e, "latent vectors", tokens * d * sizeof(float));
}

static void close_work(work *w) {
  free(w->x);
  free(w->mean);
  free(w->hidden);
  free(w->less);
  free(w->pack);
  free(w->z);
}

static kv_rc with_file(const kv_trace *t, int layer, const kv_asset *a, work *w,
                       kv_residual_stats *out, kv_err *e) {
  if (lacks(a, layer)) return KV_OK;
  kv_rc rc = kv_open_compressor(&t->shape, "deltakv", a, lacks, a, &w->c, e);
  w->of = kv_asset_layer(a, layer);
  if (!rc) rc = open_work(w, e);
  if (!rc) code_all(w);
  if (!rc && w->n) count(w, out);
  close_work(w);
  return rc;
}

kv_rc kv_latents_layer(const kv_trace *t, int layer, const kv_token_rows *rows,
                       const kv_nearest *near, const kv_kernels *kernel,
                       kv_residual_stats *out, kv_err *e) {
  char path[4096];
  kv_asset *a = NULL;
  kv_err why = {0};
  work w = {.rows = rows, .near = near, .kernel = kernel};
  if (kv_asset_beside(t, "deltakv", sizeof path, path, &why) ||
      access(path, F_OK) != 0)
    return KV_OK;
  kv_rc rc =
      kv_asset_open(path, &kv_latents_kind, t, t->shape.prompt_len, &a, e);
  if (!rc) rc = with_file(t, layer, a, &w, out, e);
  kv_asset_close(a);
  return rc;
}
