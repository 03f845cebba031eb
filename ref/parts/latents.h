/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual latents, as in DeltaKV: a token's vector as the mean of a few
 * earlier ones plus a compressed difference.
 *
 *   vector of a token: K of all KV heads of the layer before their rotation,
 *     then V of all of them; w elements
 *   references, in the order of their positions: b_1, b_2, ..
 *   distance to one: v = fma(-2, a.b, |b|^2), both products as arithmetic 1
 *     with scale 1; the k with the smallest v, of equals the lower position,
 *     nearest first: r_1 .. r_e, e = k or as many as are visible with finite v
 *   mean: m = ((0 + r_1) + r_2 + ..) / e, element by element
 *   coded:   z = f_c(vector) - f_c(m), stored as the format delta says
 *   decoded: f_d(z^) + m
 *
 * Compressors are perceptrons in a file, torch's linear layers y = W x + b: a
 * product is arithmetic 1 with scale 1, and b is added to it.
 *   swiglu: f_c(x) = O (SiLU(g) * u), (g, u) = I x;  f_d(z) = D z;  no biases
 *   gelu:   f_c(x) = O GELU(I x + i) + o;  f_d(z) = D GELU(J z + j) + d
 * Without a compressor the decoded vector is m. Without references z =
 * f_c(vector), and the decoded vector is f_d(z^).
 *
 * Nothing here allocates; scratch comes from the hook's workspace.
 */
#ifndef KV_REF_PARTS_LATENTS_H
#define KV_REF_PARTS_LATENTS_H

#include "ref/formats/delta.h"
#include "ref/parts/parts.h"

/* The tensors of a layer in a file, indexes of at->asset; the compressor
 * decides which exist. */
enum {
  KV_LATENT_IN,
  KV_LATENT_IN_BIAS,
  KV_LATENT_OUT,
  KV_LATENT_OUT_BIAS,
  KV_LATENT_BACK_IN,
  KV_LATENT_BACK_IN_BIAS,
  KV_LATENT_BACK,
  KV_LATENT_BACK_BIAS,
  KV_LATENT_TENSORS
};
extern const kv_asset_kind kv_latents_kind;

/* What the layers of a file have in common. */
typedef struct kv_compressor {
  int32_t there;  /* false: no compressor, only width is set */
  int32_t gated;  /* true: swiglu; false: gelu */
  int32_t width;  /* w: elements of a token's vector */
  int32_t hidden; /* width within f_c */
  int32_t latent; /* elements of z */
  int32_t back;   /* hidden width of gelu's f_d; 0 with swiglu */
} kv_compressor;

/* w: the elements of a token's vector. */
static inline int kv_vector_width(const kv_shape *s) {
  return s->n_kv_heads * (s->d + s->d_v);
}

/* In open: fills in *out from the file a, which must have every recorded layer
 * except those with skip(ctx, layer). a NULL: no compressor. KV_REFUSED, with a
 * sentence that names `method` and the tensor: one is missing or has another
 * shape, or the metadata name no compressor. */
kv_rc kv_open_compressor(const kv_shape *shape, const char *method,
                         const kv_asset *a,
                         bool (*skip)(const void *ctx, int layer),
                         const void *ctx, kv_compressor *out, kv_err *e);

/* References of the current layer. */
typedef struct kv_references {
  int n, most; /* how many; capacity */
  int32_t *id; /* [most] token ids, ascending */
  float *row;  /* [most][w] vectors */
  float *norm; /* [most] |b|^2 */
} kv_references;

enum { KV_LATENT_TILE = 64 }; /* most tokens coded at once */

/* Tokens that are coded together. */
typedef struct kv_latent_batch {
  int n;                          /* at most KV_LATENT_TILE */
  int32_t entry[KV_LATENT_TILE];  /* index of each in the layer's lanes */
  int32_t seen[KV_LATENT_TILE];   /* it may use so many first references */
  int32_t format[KV_LATENT_TILE]; /* from kv_coded */
} kv_latent_batch;

/* Takes memory for `most` references of the layer from the hook's workspace, to
 * which kv_latents_work was added. */
void kv_references_open(const kv_at *at, int most, kv_references *out);
/* Adds token `id`, larger than all before. The caller writes its vector to the
 * returned w elements, then calls kv_references_norm, which fills in its norm.
 * Asserts the capacity. */
float *kv_references_add(const kv_at *at, kv_references *r, int32_t id);
void kv_references_norm(const kv_at *at, kv_references *r);

/* Writes the fault of a token that cannot be coded into *e, in the same words
 * on every backend, unless *e holds one. Its latent vector is not finite as
 * stored or, if `decoded`, its decoded vector is not. step: tokens seen. */
void kv_latent_fails(kv_err *e, int layer, int step, uint32_t token,
                     bool decoded);

/* out[w] = the vector of entry i of the layer's lanes. kv_vector_recorded: as
 * recorded. kv_vector_stored: as its coding decodes to, rotated back if the
 * coding is of rotated keys. */
void kv_vector_recorded(const kv_at *at, kv_lane *const *lane, int lanes, int i,
                        float *out);
void kv_vector_stored(const kv_at *at, kv_lane *const *lane, int lanes, int i,
                      float *out);

/* In compress_layer: codes the tokens of the batch by kv_recode_token, each
 * with the nearest references in r that it may use. What cannot be coded is a
 * fault of the first lane. */
void kv_latents_code(const kv_at *at, kv_lane *const *lane, int lanes,
                     const kv_compressor *c, const kv_references *r,
                     const kv_latent_batch *batch);

/* The two halves of decoding n tokens. means: out[n][w] = the mean of the
 * references at indexes which[i * k ..] of r, found[i] >= 1 of them. rows:
 * out[n][w] = f_d(z_i) + mean_i with the layer's tensors `of`, z[n][latent],
 * mean[n][w] or NULL (none is added); without a compressor it is mean, which
 * must then exist. Scratch: hidden [n][kv_compressor_hidden] and pack
 * [KV_PACK][widest of the compressor] floats. */
void kv_latents_means(const kv_references *r, int w, int n, int k,
                      const int32_t *which, const int32_t *found, float *out);
void kv_latents_rows(const struct kv_kernels *kernels, const kv_compressor *c,
                     const kv_tensor *of, int n, const float *z,
                     const float *mean, float *hidden, float *out, float *pack);

/* Bytes of workspace of all this, for `most` references: needs.work. */
size_t kv_latents_work(const kv_shape *s, const kv_compressor *c, int most);

/* --- perceptrons ---------------------------------------------------------- */

/* out[i * n + j] = w_j . x_i + bias[j], i < m, j < n; x_i of d at x + i * d,
 * w_j at w + j * d; bias NULL: none. pack: scratch of KV_PACK * d floats. */
void kv_products(const struct kv_kernels *kernels, int m, int n, int d,
                 const float *x, const float *w, const float *bias, float *out,
                 float *pack);
/* z[m][latent] = f_c(x[m][w]) and x[m][w] = f_d(z[m][latent]) with the layer's
 * tensors `of`; hidden and pack are scratch as above. */
void kv_delta_code(const struct kv_kernels *kernels, const kv_compressor *c,
                   const kv_tensor *of, int m, const float *x, float *hidden,
                   float *z, float *pack);
void kv_delta_decode(const struct kv_kernels *kernels, const kv_compressor *c,
                     const kv_tensor *of, int m, const float *z, float *hidden,
                     float *x, float *pack);
/* Floats a row of `hidden`. */
static inline size_t kv_compressor_hidden(const kv_compressor *c) {
  int in = c->gated ? 2 * c->hidden : c->hidden;
  return (size_t)(in > c->back ? in : c->back);
}

#endif
