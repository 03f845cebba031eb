/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent vectors of a layer's tokens by a compressor of DeltaKV, z = f_c(token)
 * - f_c(mean of the KV_RESIDUAL_K nearest references of stride 10), before they
 * are stored, and what is rebuilt from them (sim/inspect/rebuilt.h): of tokens
 * from KV_NEAREST_FROM on that are no references themselves. For
 * kv_similarity_layer of sim/inspect/residual.h.
 */
#ifndef KV_SIM_INSPECT_LATENT_H
#define KV_SIM_INSPECT_LATENT_H

#include "sim/inspect/residual.h"

/* True if the file (a const kv_asset *) has no compressor of the layer, by its
 * number in the model. */
bool kv_latents_lack(const void *asset, int layer);

/* Fills of *out (NULL: not asked) the residual KV_LATENT_VECTOR and the sizes,
 * and *rebuilt, all zeroed before, of a layer by its number in the model;
 * leaves them so where the file lacks the layer or no token has a z. path names
 * the file; rows and near are those of the layer, near by distance over all
 * elements. Of the residual: norms, elements in units of the root mean square
 * of all of z, and as share the squares of z to those of the tokens, without a
 * spectrum. Each product is one chain of the reference (kv_delta_code).
 * KV_REFUSED: the file contradicts itself or the trace, which
 * kv_compressors_open has looked for; KV_RESOURCE: memory. */
kv_rc kv_latents_layer(const kv_trace *t, int layer, const kv_asset *file,
                       const char *path, const kv_token_rows *rows,
                       const kv_nearest *near, const kv_kernels *kernel,
                       kv_similarity *out, kv_rebuilt *rebuilt, kv_err *e);

#endif
