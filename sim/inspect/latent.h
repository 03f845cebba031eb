/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent vectors of a layer's tokens by a compressor, z = f_c(token) - f_c(mean
 * of the KV_RESIDUAL_K nearest references of stride 10), before it is stored,
 * and what it rebuilds (sim/inspect/rebuilt.h).
 */
#ifndef KV_SIM_INSPECT_LATENT_H
#define KV_SIM_INSPECT_LATENT_H

#include "sim/inspect/residual.h"

/* Has the file (a kv_asset) no compressor of the layer? */
bool kv_latents_lack(const void *asset, int layer);

/* z: norms, and elements by the root mean square of all of z; share: squares of
 * z to those of the tokens; NULL: not asked. Nothing in either where the file
 * lacks the layer. Each product is one chain of the reference (kv_delta_code).
 * layer: the model's number. */
kv_rc kv_latents_layer(const kv_trace *t, int layer, const kv_asset *file,
                       const char *path, const kv_token_rows *rows,
                       const kv_nearest *near, const kv_kernels *kernel,
                       kv_residual_stats *z, kv_rebuilt *rebuilt, kv_err *e);

#endif
