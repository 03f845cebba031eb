/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to asset.c and asset_find.c.
 */
#ifndef KV_TRACES_ASSET_PART_H
#define KV_TRACES_ASSET_PART_H

#include "traces/container/safetensors.h"
#include "traces/decisions/asset.h"

typedef struct kv_asset_own {
  kv_asset asset; /* first: it stands for all of it */
  char *block;    /* what its tensors hold */
} kv_asset_own;

/* The tensors asked for, checked and copied. */
kv_rc kv_asset_find(const kv_st *files, const kv_shape *shape,
                    kv_asset_own *own, kv_err *e);

#endif
