/* SPDX-License-Identifier: Apache-2.0
 *
 * References, and coding and decoding with them: ref/parts/latents.h.
 */
#include "ref/parts/latents.h"
#include "ref/backend/attend.h"
#include "ref/kernels/kernels.h"
#include <stdio.h>
#include <string.h>

/* --- vectors ------------------------------------------------------------- */

/* Where K and V of lane g are in a vector x. */
static float *key_of(const kv_shape *s, float *x, int g) {
  return x + (size_t)g * (size_t)s->d;
}
static float *value_of(const kv_shape *s, float *x, int g) {
  return x + (size_t)s->n_kv_heads * (size_t)s->d + (size_t)g * (size_t)s->d_v;
}

void kv_vector_recorded(const kv_at *at, kv_lane *const *lane, int lanes, int i,
                        float *out) {
  const kv_shape *s = at->shape;
  for (int g = 0; g < lanes; g++) {
    uint32_t t = lane[g]->id[i];
    float *k = key_of(s, out, g);
    at->kernels->widen(s->dtype, kv_lane_raw_key(lane[g], t), (size_t)s->d, k);
    at->kernels->widen(s->dtype, kv_lane_raw_value(lane[g], t), (size_t)s->d_v,
                       value_of(s, out, g));
    kv_turn_back(lane[g]->turns, t, k);
  }
}

/* The same as stored, for an entry without a layered coding. */
static void vector_read(kv_lane *const *lane, int lanes, int i, float *out) {
  const kv_shape *s = lane[0]->shape;
  for (int g = 0; g < lanes; g++) {
    kv_lane_key(lane[g], i, key_of(s, out, g));
    kv_lane_value(lane[g], i, value_of(s, out, g));
    kv_turn_back(lane[g]->turns, lane[g]->id[i], key_of(s, out, g));
  }
}

/* A row of a layered coding is stored before its rotation. */
static const float *row_of(const kv_slab *slab, const kv_cell_ref *r) {
  const kv_slab *s = &slab[r->format];
  return (const float *)(const void *)(s->data + (size_t)r->block * s->size);
}

void kv_vector_stored(const kv_at *at, kv_lane *const *lane, int lanes, int i,
                      float *out) {
  const kv_shape *s = at->shape;
  int f = lane[0]->k[i].format;
  if (f < KV_CODED || !lane[0]->needs->coding[f - KV_CODED].format->layered) {
    vector_read(lane, lanes, i, out);
    return;
  }
  for (int g = 0; g < lanes; g++) {
    memcpy(key_of(s, out, g), row_of(lane[g]->k_slab, &lane[g]->k[i]),
           (size_t)s->d * sizeof *out);
    memcpy(value_of(s, out, g), row_of(lane[g]->v_slab, &lane[g]->v[i]),
           (size_t)s->d_v * sizeof *out);
  }
}

/* --- references ---------------------------------------------------------- */

void kv_references_open(const kv_at *at, int most, kv_references *out) {
  size_t w = (size_t)kv_vector_width(at->shape);
  out->n = 0;
  out->most = most;
  out->id = KV_TAKE(at->work, int32_t, most);
  out->norm = KV_TAKE(at->work, float, most);
  out->row = KV_TAKE(at->work, float, (size_t)most *w);
}

float *kv_references_add(const kv_at *at, kv_references *r, int32_t id) {
  assert(r->n < r->most && "there is room for every reference");
  r->id[r->n] = id;
  return r->row + (size_t)r->n++ * (size_t)kv_vector_width(at->shape);
}

void kv_references_norm(const kv_at *at, kv_references *r) {
  int w = kv_vector_width(at->shape);
  const float *x = r->row + (size_t)(r->n - 1) * (size_t)w;
  r->norm[r->n - 1] = kv_dot(x, x, w) + 0.0f;
}

/* out = the mean of n rows, added from the nearest on. */
static void mean_of(const float *row, int w, int n, const int32_t *which,
                    float *out) {
  memset(out, 0, (size_t)w * sizeof *out);
  for (int i = 0; i < n; i++) {
    const float *b = row + (size_t)which[i] * (size_t)w;
    for (int x = 0; x < w; x++) out[x] = out[x] + b[x];
  }
  for (int x = 0; x < w; x++) out[x] = out[x] / (float)n;
}

void kv_latents_means(const kv_references *r, int w, int n, int k,
                      const int32_t *which, const int32_t *found, float *out) {
  for (int i = 0; i < n; i++)
    mean_of(r->row, w, found[i], which + (size_t)i * (size_t)k,
            out + (size_t)i * (size_t)w);
}

/* --- a batch ------------------------------------------------------------- */

typedef struct batch {
  const kv_at *at;
  kv_lane *const *lane;
  int lanes, n, w;
  const kv_compressor *c;
  const kv_references *r;
  float *x, *mean, *row; /* [n][w]: vectors, means, decoded vectors */
  float *hidden, *z, *of_mean, *pack;
  char *block;    /* [n][bytes] */
  int32_t *which; /* [n][k] rows of r; [n][k] ids */
  int32_t *found; /* [n] */
  int32_t *named;
  int k;
} batch;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t deepest(const kv_compressor *c) {
  size_t d = larger((size_t)c->width, (size_t)c->hidden);
  return larger(d, larger((size_t)c->latent, (size_t)c->back));
}

enum { MOST_BLOCK = 8 }; /* most bytes of a latent element, scales included */

static batch open_batch(const kv_at *at, kv_lane *const *lane, int lanes,
                        const kv_compressor *c, const kv_references *r) {
  size_t n = KV_LATENT_TILE, w = (size_t)kv_vector_width(at->shape);
  batch b = {
      .at = at, .lane = lane, .lanes = lanes, .w = (int)w, .c = c, .r = r};
  b.x = KV_TAKE(at->work, float, n *w);
  b.mean = KV_TAKE(at->work, float, n *w);
  b.row = KV_TAKE(at->work, float, n *w);
  b.hidden = KV_TAKE(at->work, float, n *kv_compressor_hidden(c));
  b.z = KV_TAKE(at->work, float, n *(size_t)c->latent);
  b.of_mean = KV_TAKE(at->work, float, n *(size_t)c->latent);
  b.pack = KV_TAKE(at->work, float, KV_PACK *deepest(c));
  b.block = KV_TAKE(at->work, char, n *MOST_BLOCK *((size_t)c->latent + 1));
  b.which = KV_TAKE(at->work, int32_t, n * KV_MOST_NEAREST);
  b.named = KV_TAKE(at->work, int32_t, n * KV_MOST_NEAREST);
  b.found = KV_TAKE(at->work, int32_t, n);
  return b;
}

size_t kv_latents_work(const kv_shape *s, const kv_compressor *c, int most) {
  size_t n = KV_LATENT_TILE, w = (size_t)kv_vector_width(s);
  size_t floats = (size_t)most * (w + 2) + 3 * n * w +
                  n * (kv_compressor_hidden(c) + 2 * (size_t)c->latent) +
                  KV_PACK * deepest(c) + 2 * n * KV_MOST_NEAREST + n +
                  n * KV_MOST_NEAREST;
  return floats * sizeof(float) + n * MOST_BLOCK * ((size_t)c->latent + 1) +
         64 * 16;
}

static const kv_delta *how_of(const batch *b, int format) {
  return b->lane[0]->needs->coding[format - KV_CODED].settings;
}

/* Finds each token's nearest references, their ids and their mean. */
static void find_means(batch *b, const kv_latent_batch *of) {
  size_t used = b->at->work->used, k = (size_t)b->k;
  float *v = KV_TAKE(b->at->work, float, (size_t)of->n *k);
  b->at->kernels->nearest(of->n, b->w, b->x, b->r->n, b->r->row, b->r->norm,
                          of->seen, b->k, b->which, b->found, v, b->pack);
  b->at->work->used = used;
  kv_latents_means(b->r, b->w, of->n, b->k, b->which, b->found, b->mean);
  for (int i = 0; i < of->n; i++) {
    const int32_t *which = b->which + (size_t)i * k;
    for (int j = 0; j < b->k; j++)
      b->named[(size_t)i * k + (size_t)j] =
          j < b->found[i] ? b->r->id[which[j]] : KV_NO_TOKEN;
  }
}

void kv_latent_fails(kv_err *e, int layer, int step, uint32_t token,
                     bool decoded) {
  if (e->rc) return;
  kv_fail(e, KV_REFUSED,
          "layer %d, step %d: the latent vector of token %u %s; choose another "
          "`latent`, or other weights",
          layer, step, token,
          decoded ? "decodes to NaN or Inf" : "is not finite as stored");
}

static void fail(const batch *b, const kv_latent_batch *of, int i,
                 bool decoded) {
  kv_lane *l = b->lane[0];
  kv_latent_fails(&l->fault, l->data->layer, l->step, l->id[of->entry[i]],
                  decoded);
}

/* Computes z of all rows, rounded as it is stored. */
static void code_latents(batch *b, const kv_latent_batch *of, bool means) {
  const kv_compressor *c = b->c;
  const kv_tensor *t = b->at->asset;
  size_t n = (size_t)of->n * (size_t)c->latent, size;
  kv_delta_code(b->at->kernels, c, t, of->n, b->x, b->hidden, b->z, b->pack);
  if (means) {
    kv_delta_code(b->at->kernels, c, t, of->n, b->mean, b->hidden, b->of_mean,
                  b->pack);
    for (size_t i = 0; i < n; i++) b->z[i] = b->z[i] - b->of_mean[i];
  }
  for (int i = 0; i < of->n; i++) {
    const kv_delta *how = how_of(b, of->format[i]);
    float *z = b->z + (size_t)i * (size_t)c->latent;
    size = kv_delta_bytes(how);
    if (!kv_delta_put(how, z, b->block + (size_t)i * size))
      fail(b, of, i, false);
    kv_delta_get(b->at->kernels, how, b->block + (size_t)i * size, z);
  }
}

void kv_latents_rows(const kv_kernels *kernels, const kv_compressor *c,
                     const kv_tensor *of, int n, const float *z,
                     const float *mean, float *hidden, float *out,
                     float *pack) {
  size_t all = (size_t)n * (size_t)c->width;
  if (!c->there) {
    memcpy(out, mean, all * sizeof *out);
    return;
  }
  kv_delta_decode(kernels, c, of, n, z, hidden, out, pack);
  for (size_t i = 0; mean && i < all; i++) out[i] = out[i] + mean[i];
}

static void decode_latents(batch *b, int n, bool means) {
  kv_latents_rows(b->at->kernels, b->c, b->at->asset, n, b->z,
                  means ? b->mean : NULL, b->hidden, b->row, b->pack);
}

void kv_latents_code(const kv_at *at, kv_lane *const *lane, int lanes,
                     const kv_compressor *c, const kv_references *r,
                     const kv_latent_batch *of) {
  size_t used = at->work->used;
  batch b = open_batch(at, lane, lanes, c, r);
  b.k = how_of(&b, of->format[0])->nearest;
  for (int i = 0; i < of->n; i++)
    kv_vector_recorded(at, lane, lanes, of->entry[i],
                       b.x + (size_t)i * (size_t)b.w);
  if (b.k) find_means(&b, of);
  if (c->there) code_latents(&b, of, b.k > 0);
  decode_latents(&b, of->n, b.k > 0);
  for (int i = 0; i < of->n; i++) {
    const float *row = b.row + (size_t)i * (size_t)b.w;
    size_t size = kv_delta_bytes(how_of(&b, of->format[i]));
    if (!kv_all_finite(row, b.w)) fail(&b, of, i, true);
    kv_recode_token(lane, lanes, of->entry[i], of->format[i],
                    b.named + (size_t)i * (size_t)b.k,
                    b.block + (size_t)i * size, row);
  }
  at->work->used = used;
}

/* The perceptrons' products (latents.h) and their tensors in a file. */

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
                 "%s: %s has no %s for compressed layer %d; train one for "
                 "every layer that `full` does not name",
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
                 "%s: %s of layer %d in %s is %s and must be %s for this model "
                 "and the other tensors; give weights of this model",
                 method, strchr(tensors[which].name, '*') + 2, layer, a->path,
                 is, want);
}

/* Checks that a tensor has rows * columns numbers. */
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
  return kv_fail(
      e, KV_REFUSED,
      "%s: metadata of %s says compressor=%.40s; it must be swiglu or gelu",
      method, a->path, is ? is : "nothing");
}

/* Widths in the first layer that has a compressor; all must have the same. */
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
