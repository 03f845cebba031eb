/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptrons of ref/parts/latents.h: their products, and which tensors of
 * a file they are.
 */
#include "ref/kernels/kernels.h"
#include "ref/parts/latents.h"
#include <stdio.h>
#include <string.h>

static const kv_tensor_ask tensors[] = {
    [KV_LATENT_IN] = {.name = "layers.*.compress.in.weight",
                      .rank = 2,
                      .optional = true},
    [KV_LATENT_IN_BIAS] = {.name = "layers.*.compress.in.bias",
                           .rank = 1,
                           .optional = true},
    [KV_LATENT_OUT] = {.name = "layers.*.compress.out.weight",
                       .rank = 2,
                       .optional = true},
    [KV_LATENT_OUT_BIAS] = {.name = "layers.*.compress.out.bias",
                            .rank = 1,
                            .optional = true},
    [KV_LATENT_BACK_IN] = {.name = "layers.*.decompress.in.weight",
                           .rank = 2,
                           .optional = true},
    [KV_LATENT_BACK_IN_BIAS] = {.name = "layers.*.decompress.in.bias",
                                .rank = 1,
                                .optional = true},
    [KV_LATENT_BACK] = {.name = "layers.*.decompress.out.weight",
                        .rank = 2,
                        .optional = true},
    [KV_LATENT_BACK_BIAS] = {.name = "layers.*.decompress.out.bias",
                             .rank = 1,
                             .optional = true},
    [KV_LATENT_TENSORS] = {.name = NULL}};

const kv_asset_kind kv_latents_kind = {"kvreplay-deltakv", tensors};

/* --- open ---------------------------------------------------------------- */

static kv_rc missing(const char *method, const kv_asset *a, int layer,
                     int which, kv_err *e) {
  return kv_fail(e, KV_REFUSED,
                 "%s: %s has no %s of layer %d, which is compressed; train one "
                 "for every layer that `full` does not name",
                 method, a->path, strchr(tensors[which].name, '*') + 2, layer);
}

static kv_rc other_shape(const char *method, const kv_asset *a, int layer,
                         int which, int rows, int columns, kv_err *e) {
  const kv_tensor *t = &kv_asset_layer(a, layer)[which];
  bool matrix = tensors[which].rank == 2;
  char is[48], want[48];
  if (matrix) {
    snprintf(is, sizeof is, "[%d, %d]", (int)t->dim[0], (int)t->dim[1]);
    snprintf(want, sizeof want, "[%d, %d]", rows, columns);
  } else {
    snprintf(is, sizeof is, "[%d]", (int)t->dim[0]);
    snprintf(want, sizeof want, "[%d]", rows);
  }
  return kv_fail(e, KV_REFUSED,
                 "%s: %s of layer %d in %s is %s and should be %s for this "
                 "model and the other tensors; name the weights of this model",
                 method, strchr(tensors[which].name, '*') + 2, layer, a->path,
                 is, want);
}

/* A tensor of rows * columns numbers. */
static kv_rc check(const char *method, const kv_asset *a, int layer, int which,
                   int rows, int columns, kv_err *e) {
  const kv_tensor *t = &kv_asset_layer(a, layer)[which];
  if (!t->data) return missing(method, a, layer, which, e);
  if (t->dim[0] == rows && (tensors[which].rank == 1 || t->dim[1] == columns))
    return KV_OK;
  return other_shape(method, a, layer, which, rows, columns, e);
}

static kv_rc check_layer(const char *method, const kv_asset *a, int layer,
                         const kv_compressor *c, kv_err *e) {
  int in = c->gated ? 2 * c->hidden : c->hidden;
  const struct {
    int which, rows, columns;
    bool gelu;
  } all[] = {{KV_LATENT_IN, in, c->width, false},
             {KV_LATENT_IN_BIAS, in, 1, true},
             {KV_LATENT_OUT, c->latent, c->hidden, false},
             {KV_LATENT_OUT_BIAS, c->latent, 1, true},
             {KV_LATENT_BACK_IN, c->back, c->latent, true},
             {KV_LATENT_BACK_IN_BIAS, c->back, 1, true},
             {KV_LATENT_BACK, c->width, c->gated ? c->latent : c->back, false},
             {KV_LATENT_BACK_BIAS, c->width, 1, true}};
  kv_rc rc = KV_OK;
  for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++)
    if (!all[i].gelu || !c->gated)
      rc =
          check(method, a, layer, all[i].which, all[i].rows, all[i].columns, e);
  return rc;
}

static kv_rc kind_of(const char *method, const kv_asset *a, kv_compressor *c,
                     kv_err *e) {
  const char *is = kv_asset_meta(a, "compressor");
  c->gated = is && strcmp(is, "swiglu") == 0;
  if (c->gated || (is && strcmp(is, "gelu") == 0)) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: the metadata of %s say compressor=%.40s, and it is "
                 "swiglu or gelu",
                 method, a->path, is ? is : "nothing");
}

/* Widths of the first layer that is there; all others must have the same. */
static void widths_of(const kv_tensor *t, kv_compressor *c) {
  int in = (int)t[KV_LATENT_IN].dim[0];
  c->hidden = c->gated ? in / 2 : in;
  c->latent = (int)t[KV_LATENT_OUT].dim[0];
  c->back = c->gated ? 0 : (int)t[KV_LATENT_BACK_IN].dim[0];
}

kv_rc kv_open_compressor(const kv_shape *shape, const char *method,
                         const kv_asset *a,
                         bool (*skip)(const void *ctx, int layer),
                         const void *ctx, kv_compressor *out, kv_err *e) {
  *out = (kv_compressor){.width = kv_vector_width(shape)};
  if (!a) return KV_OK;
  kv_rc rc = kind_of(method, a, out, e);
  for (int i = 0; !rc && i < a->layers; i++) {
    if (skip(ctx, a->layer[i])) continue;
    if (!out->there) widths_of(kv_asset_layer(a, a->layer[i]), out);
    out->there = true;
    rc = check_layer(method, a, a->layer[i], out, e);
  }
  return rc;
}

/* --- products ------------------------------------------------------------ */

void kv_products(const kv_kernels *kernels, int m, int n, int d, const float *x,
                 const float *w, const float *bias, float *out, float *pack) {
  const void *row[KV_PACK];
  for (int j = 0; j < n; j += KV_PACK) {
    int columns = n - j < KV_PACK ? n - j : KV_PACK;
    for (int i = 0; i < columns; i++) row[i] = w + (size_t)(j + i) * (size_t)d;
    kernels->logits(m, columns, d, x, (size_t)d, row, KV_F32, 1, out + j,
                    (size_t)n, pack);
  }
  for (int i = 0; bias && i < m; i++)
    for (int j = 0; j < n; j++) {
      float *y = &out[(size_t)i * (size_t)n + (size_t)j];
      *y = *y + bias[j];
    }
}

void kv_delta_code(const kv_kernels *kernels, const kv_compressor *c,
                   const kv_tensor *of, int m, const float *x, float *hidden,
                   float *z, float *pack) {
  size_t h = (size_t)c->hidden;
  int in = c->gated ? 2 * c->hidden : c->hidden;
  kv_products(kernels, m, in, c->width, x, of[KV_LATENT_IN].data,
              c->gated ? NULL : of[KV_LATENT_IN_BIAS].data, hidden, pack);
  if (!c->gated) kernels->gelu(hidden, m * c->hidden, hidden);
  for (int i = 0; c->gated && i < m; i++) /* rows close up as they are made */
    kernels->silu_times(hidden + 2 * (size_t)i * h,
                        hidden + (2 * (size_t)i + 1) * h, c->hidden,
                        hidden + (size_t)i * h);
  kv_products(kernels, m, c->latent, c->hidden, hidden, of[KV_LATENT_OUT].data,
              c->gated ? NULL : of[KV_LATENT_OUT_BIAS].data, z, pack);
}

void kv_delta_decode(const kv_kernels *kernels, const kv_compressor *c,
                     const kv_tensor *of, int m, const float *z, float *hidden,
                     float *x, float *pack) {
  if (c->gated) {
    kv_products(kernels, m, c->width, c->latent, z, of[KV_LATENT_BACK].data,
                NULL, x, pack);
    return;
  }
  kv_products(kernels, m, c->back, c->latent, z, of[KV_LATENT_BACK_IN].data,
              of[KV_LATENT_BACK_IN_BIAS].data, hidden, pack);
  kernels->gelu(hidden, m * c->back, hidden);
  kv_products(kernels, m, c->width, c->back, hidden, of[KV_LATENT_BACK].data,
              of[KV_LATENT_BACK_BIAS].data, x, pack);
}
