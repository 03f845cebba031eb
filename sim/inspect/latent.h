/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent vectors of a layer's tokens by the compressor that lies beside the
 * trace (assets/deltakv.MODEL.safetensors): z = f_c(token) - f_c(mean of the
 * KV_RESIDUAL_K nearest references of stride 10), before it is stored.
 */
#ifndef KV_SIM_INSPECT_LATENT_H
#define KV_SIM_INSPECT_LATENT_H

#include "sim/inspect/residual.h"

/* Norms, and elements by the root mean square of all of z; share: squares of z
 * to those of the tokens. Nothing, tokens 0, where there is no file, or none of
 * the layer. What kv_asset_open says, or that a vector has other elements. Each
 * product is one chain of the reference (kv_compress): the same by every kernel
 * set. layer: the model's number. */
kv_rc kv_latents_layer(const kv_trace *t, int layer, const kv_token_rows *rows,
                       const kv_nearest *near, const kv_kernels *kernel,
                       kv_residual_stats *out, kv_err *e);

#endif
