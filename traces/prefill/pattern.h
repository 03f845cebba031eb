/* SPDX-License-Identifier: Apache-2.0
 *
 * Block-sparse patterns of the literature as orders of pairs: each takes the
 * pairs of a grid one after another, the ones that it wants most first, until
 * it has as many as it was given. So that patterns can be compared at equal
 * numbers, and with all pairs each has all of the mass. Published ones always
 * have the first column and the main diagonal: fewer pairs than these two cut
 * the diagonal short, as first tokens have most of the mass of many heads.
 *
 * Of a line of pairs the longest rows come first, the last query block's; a
 * pair that it has is not counted twice.
 */
#ifndef KV_TRACES_PATTERN_H
#define KV_TRACES_PATTERN_H

#include "traces/prefill/blocks.h"

/* What a pattern may look at, of one query head. */
typedef struct kv_pattern_of {
  const kv_grid *grid;
  /* [tokens] probabilities (RN(P * 2^40)) of the prompt's last min(block,
   * tokens) rows, summed by column and by distance, token of row - column. */
  const int64_t *column, *distance;
  /* [pairs] dot product of the mean query of a query block and the mean key of
   * a key block (arithmetic 5). */
  const float *pooled;
} kv_pattern_of;

/* What it has taken. */
typedef struct kv_taking {
  const kv_grid *grid;
  const int64_t *mass; /* [pairs] what is counted */
  uint8_t *in;         /* [pairs] 1: it has this one */
  int64_t left, kept;  /* pairs it may still take; mass of those it has */
} kv_taking;

/* Scratch of a pattern: numbers to be ranked, each with its place. */
typedef struct kv_ranked {
  int64_t value, at;
} kv_ranked;
size_t kv_pattern_room(const kv_grid *grid); /* how many it needs */

/* For qsort: larger values first, of equals the lower place. */
int kv_ranked_order(const void *a, const void *b);

/* The patterns; a name as in columns of JSON and CSV, and one for a table.
 *
 *   vertical_slash  FlexPrefill's (Lai et al. 2025), of MInference (Jiang et
 *                   al. 2024): key blocks in whole columns, and diagonals, by
 *                   what the prompt's last rows give them. The first column and
 *                   the main diagonal lead; line r of a kind enters once gamma
 *                   reaches the mass of the r * block - 1 largest tokens (or
 *                   distances), as their code makes blocks of a gamma; at equal
 *                   gamma columns do first
 *   a_shape         MInference's A-shape, StreamingLLM's of a prompt: the first
 *                   column (one block; MInference has 128 tokens), the main
 *                   diagonal, then the others as they are near
 *   block_topk      MInference's block-sparse: of each query block the k key
 *                   blocks of the largest `pooled` (equal: the lower), with one
 *                   k for all
 */
enum { KV_PATTERNS = 3 };
typedef struct kv_pattern {
  const char *name, *title;
  void (*take)(const kv_pattern_of *of, kv_ranked *room, kv_taking *x);
} kv_pattern;
extern const kv_pattern kv_patterns[KV_PATTERNS];

#endif
