/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay residuals` finds in a layer, as it is stored by
 * kv_db_put_similarities (sim/db/db.h).
 */
#ifndef KV_SIM_INSPECT_SIMILARITY_H
#define KV_SIM_INSPECT_SIMILARITY_H

#include "sim/inspect/cachegen.h"
#include "sim/inspect/residual.h"

typedef struct kv_similarities {
  kv_similarity space[KV_SPACES];                   /* by kv_similarity_layer */
  kv_entropy entropy[KV_ENTROPY_PARTS][KV_CODINGS]; /* by kv_entropy_layer */
  kv_rebuilt rebuilt[KV_REBUILT_FILES]; /* a file each; the rest is zero */
} kv_similarities;

#endif
