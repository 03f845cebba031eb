/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules for a prompt that is read in chunks (kv_shape.chunk), for C and CUDA.
 * The first chunk is read as a whole prompt is. In later chunks each row
 * attends by the method's view, as a decode step does. It sees what was stored
 * when the chunk began, and the chunk's tokens up to its own. The chunk
 * observes and compresses at its end. Hooks of a chunk see a prompt_len that is
 * its end.
 *
 * A method that wants the prompt's last w rows (kv_needs.prompt_rows) gets, at
 * the end of each chunk, the last w rows read so far, including rows of earlier
 * chunks. A row of an earlier chunk has its recorded query and sees the entries
 * that the lane holds now, as stored now, up to its own token's entry. Logits
 * (arithmetic 1) and probabilities (arithmetic 4) are over these entries alone.
 * If a row's own token has left the lane, the method gets neither that row nor
 * any row before it; a method that always keeps its last w entries gets w rows.
 * If every chunk has at least w tokens, all w rows are the chunk's own. A
 * method that wants all rows (KV_ALL_ROWS) gets each once, at the end of its
 * chunk.
 */
#ifndef KV_REF_CHUNK_H
#define KV_REF_CHUNK_H

#include "ref/ground/arith.h"
#include "ref/ground/shape.h"
#include <stdbool.h>

/* The first token of the chunk that contains the row at which `step` tokens are
 * seen; 0: it is the first chunk, or the prompt is read whole. */
KV_FN int kv_chunk_first(const kv_shape *s, int step) {
  return s->chunk ? (step - 1) / s->chunk * s->chunk : 0;
}

/* Does the row at which `step` tokens are seen attend? Rows of decode steps and
 * of later chunks do. */
KV_FN bool kv_row_attends(const kv_shape *s, int step) {
  return step > s->prompt_len || kv_chunk_first(s, step) > 0;
}

enum { KV_ALL_ROWS = 1 << 30 }; /* kv_needs.prompt_rows: every prompt query */

/* The first query row (a token's number) that a method gets at the end of the
 * block or chunk that begins with token `first`, if it wants the prompt's last
 * `rows`. */
KV_FN int kv_chunk_shown(const kv_shape *s, int rows, int first) {
  int least = s->chunk && rows < KV_ALL_ROWS ? 0 : first;
  int from = s->prompt_len - rows;
  return from > least ? from : least;
}

#endif
