/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a file of decisions (format in ref/lane/decisions.h), as `kvreplay run
 * --decisions` does after a cell is done.
 */
#ifndef KV_TRACES_DECISIONS_WRITE_H
#define KV_TRACES_DECISIONS_WRITE_H

#include "ref/ground/err.h"
#include "ref/ground/sha256.h"
#include "ref/ground/shape.h"
#include "ref/lane/decisions.h"

/* Writes the lists d, of at least one layer, to path, NAME.safetensors.
 *   name   the source of the decisions, for people: a method's specification
 *   trace  identity of the trace on which they were made
 *   shape  of that trace; its prompt_len is recorded, and its head counts show
 *          whether lists belong to KV heads or to query heads
 * The file appears whole or not at all. KV_RESOURCE: memory, or the disk.
 * KV_USAGE: path must not be written (traces/container/newfile.h), or name is
 * not UTF-8. */
kv_rc kv_decisions_write(const char *path, const char *name,
                         const kv_digest *trace, const kv_shape *shape,
                         const kv_decisions *d, kv_err *e);

#endif
