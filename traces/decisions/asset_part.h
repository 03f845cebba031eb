/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to asset.c and asset_find.c: a method's file once it is read, and the
 * search for the tensors that the method asks for.
 */
#ifndef KV_TRACES_ASSET_PART_H
#define KV_TRACES_ASSET_PART_H

#include "traces/container/safetensors.h"
#include "traces/decisions/asset.h"

/* What kv_asset_open allocates, and kv_asset_close finds again by a pointer to
 * its first member. */
typedef struct kv_asset_own {
  kv_asset asset; /* first */
  char *block;    /* the elements of all its tensors, in one piece */
} kv_asset_own;

/* Finds the tensors that own->asset asks for in the open files, checks names,
 * types and shapes against the trace's shape and copies their elements into
 * own->block. KV_INPUT: one is missing or has another shape, or holds a number
 * that is not finite; KV_RESOURCE: memory. Own is to be freed by the caller,
 * also after a failure. */
kv_rc kv_asset_find(const kv_st *files, const kv_shape *shape,
                    kv_asset_own *own, kv_err *e);

#endif
