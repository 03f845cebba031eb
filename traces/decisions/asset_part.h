/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to asset.c, asset_find.c and asset_lines.c of this folder: the search
 * for the tensors that a method needs, and files of text.
 */
#ifndef KV_TRACES_ASSET_PART_H
#define KV_TRACES_ASSET_PART_H

#include "traces/container/safetensors.h"
#include "traces/decisions/asset.h"

/* Finds the tensors of the table own->asset.ask in the open file, checks their
 * types and shapes against the table for the trace t, allocates own->block and
 * copies their elements into it, floats as binary32. KV_REFUSED: a required
 * tensor is missing. KV_INPUT: a tensor has another type or shape, or a number
 * that is not finite. KV_RESOURCE: memory. The caller frees own also after a
 * failure. */
kv_rc kv_asset_find(const kv_st *files, const kv_trace *t, kv_asset_own *own,
                    kv_err *e);

/* Reads a file of plain text into a->text and a->digest; a->path is set.
 * KV_INPUT: it cannot be read, or is no short text. KV_RESOURCE: memory. The
 * caller frees a also after a failure. */
kv_rc kv_asset_lines(const char *path, kv_asset *a, kv_err *e);

#endif
