/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a decisions file, whose form is described in ref/lane/decisions.h, as
 * `kvreplay run --decisions` does.
 */
#ifndef KV_TRACES_DECISIONS_WRITE_H
#define KV_TRACES_DECISIONS_WRITE_H

#include "ref/ground/sha256.h"
#include "ref/ground/shape.h"
#include "ref/lane/decisions.h"

#include "ref/ground/err.h"

/* Writes the lists d to path. name: of the method, for people; trace: identity
 * of the trace that they were decided on; shape: of that trace, its prompt_len
 * is written. A view's heads are the query heads or the KV heads, as many as d
 * has. KV_RESOURCE: memory, or the file cannot be written; it is there whole or
 * not at all. */
kv_rc kv_decisions_write(const char *path, const char *name,
                         const kv_digest *trace, const kv_shape *shape,
                         const kv_decisions *d, kv_err *e);

#endif
