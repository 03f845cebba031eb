/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line of a file of chunks, for traces/container/chunks.c alone.
 */
#ifndef KV_TRACES_CHUNKS_LINE_H
#define KV_TRACES_CHUNKS_LINE_H

#include <jansson.h>

#include "traces/container/chunks.h"

/* Fills layer, heads, sizes, type and sinks of *out from the parsed line of the
 * file at path. KV_INPUT: a key is missing, unknown or out of its range;
 * KV_RESOURCE: memory. out->sinks is the caller's to free in any case. */
kv_rc kv_chunks_line(const char *path, const json_t *line, kv_chunks *out,
                     kv_err *e);

#endif
