/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay residuals` finds in a layer.
 */
#ifndef KV_SIM_INSPECT_SIMILARITY_H
#define KV_SIM_INSPECT_SIMILARITY_H

#include "sim/inspect/cachegen.h"
#include "sim/inspect/residual.h"

typedef struct kv_similarities {
  kv_similarity space[KV_SPACES];
  kv_entropy entropy[KV_ENTROPY_PARTS][KV_CODINGS];
  kv_rebuilt rebuilt[KV_REBUILT_FILES]; /* a file each; the rest is zero */
} kv_similarities;

#endif
