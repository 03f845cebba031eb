/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt that is read in chunks (kv_shape.chunk), for C and for CUDA. The
 * first chunk is read as a whole prompt is. Rows of each later one attend by
 * the method's view, as decode steps do, to what was stored when it began and
 * to the chunk's tokens up to their own; only then does the chunk observe and
 * compress. Hooks of a chunk see a prompt_len that is its end.
 */
#ifndef KV_REF_CHUNK_H
#define KV_REF_CHUNK_H

#include "ref/ground/arith.h"
#include "ref/ground/shape.h"
#include <stdbool.h>

/* The first token of the chunk at whose row `step` tokens are seen; 0: it is
 * the first, or the prompt is read whole. */
KV_FN int kv_chunk_first(const kv_shape *s, int step) {
  return s->chunk ? (step - 1) / s->chunk * s->chunk : 0;
}

/* Does the row at which `step` tokens are seen attend: of a decode step, or of
 * a later chunk? */
KV_FN bool kv_row_attends(const kv_shape *s, int step) {
  return step > s->prompt_len || kv_chunk_first(s, step) > 0;
}

#endif
