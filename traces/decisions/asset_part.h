/* SPDX-License-Identifier: Apache-2.0
 *
 * What asset.c and asset_find.c of this folder share: the search for the
 * tensors that a method asks for. Nobody else includes this.
 */
#ifndef KV_TRACES_ASSET_PART_H
#define KV_TRACES_ASSET_PART_H

#include "traces/container/safetensors.h"
#include "traces/decisions/asset.h"

/* Finds the tensors of the table own->asset.ask in the open file, checks their
 * types and shapes against what the table says for the trace t,
 * allocates own->block and copies their elements into it, floats as binary32.
 * KV_REFUSED: a tensor that must be there is missing; KV_INPUT: one has another
 * type or shape, or a number that is not finite; KV_RESOURCE: memory. The
 * caller frees own also after a failure. */
kv_rc kv_asset_find(const kv_st *files, const kv_trace *t, kv_asset_own *own,
                    kv_err *e);

#endif
