/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt that is read in chunks (kv_shape.chunk), for C and for CUDA. The
 * first chunk is read as a whole prompt is. Rows of each later one attend by
 * the method's view, as decode steps do, to what was stored when it began and
 * to the chunk's tokens up to their own; only then does the chunk observe and
 * compress. Hooks of a chunk see a prompt_len that is its end.
 *
 * A method that asks for the prompt's last w rows (kv_needs.prompt_rows) is
 * shown, at the end of each chunk, the last w rows that were read, those of
 * earlier chunks again. A row of an earlier chunk is a row as any other: its
 * recorded query, and the entries that the lane holds now, as they are stored
 * now, up to the entry of its own token; logits by arithmetic 1, probabilities
 * by arithmetic 4 over these entries alone. Rows whose own token has left the
 * lane are not shown, nor are the rows before them; a method that always keeps
 * its last w entries is shown w. Where every chunk has w tokens or more, they
 * are the chunk's own. A method that asks for all rows (KV_ALL_ROWS) is shown
 * each once, at the end of its chunk.
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

enum { KV_ALL_ROWS = 1 << 30 }; /* kv_needs.prompt_rows: every prompt query */

/* The first query row that is shown at the end of the block or chunk of tokens
 * `first` and later, of a method that asks for the prompt's last `rows`. */
KV_FN int kv_chunk_shown(const kv_shape *s, int rows, int first) {
  int least = s->chunk && rows < KV_ALL_ROWS ? 0 : first;
  int from = s->prompt_len - rows;
  return from > least ? from : least;
}

#endif
