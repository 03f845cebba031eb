/* SPDX-License-Identifier: Apache-2.0
 *
 * What asset.c and asset_find.c of this folder share: the asset (the file of a
 * method) as it is allocated, and the search for the tensors that the method
 * asks for. Nobody else includes this.
 */
#ifndef KV_TRACES_ASSET_PART_H
#define KV_TRACES_ASSET_PART_H

#include "traces/container/safetensors.h"
#include "traces/decisions/asset.h"
#include <stdatomic.h>

/* What kv_asset_open allocates; kv_asset_close gets a pointer to `asset` and
 * converts it back, so that it must be the first member. */
typedef struct kv_asset_own {
  kv_asset asset;
  char *block; /* for free(): the elements of all its tensors, in one piece */
  kv_tensor_ask *ask; /* for free(): the table of one that was joined */
  atomic_int more;    /* owners beside the first (kv_asset_share) */
} kv_asset_own;

/* Finds the tensors of the table own->asset.ask in the open file, checks their
 * types and shapes against what the table says for the trace t,
 * allocates own->block and copies their elements into it, floats as binary32.
 * KV_REFUSED: a tensor that must be there is missing; KV_INPUT: one has another
 * type or shape, or a number that is not finite; KV_RESOURCE: memory. The
 * caller frees own also after a failure. */
kv_rc kv_asset_find(const kv_st *files, const kv_trace *t, kv_asset_own *own,
                    kv_err *e);

#endif
