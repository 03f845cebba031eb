/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns: traces/prefill/pattern.h. What is ranked is a whole number, or
 * a binary32 by rule 2 of the arithmetic.
 */
#include "traces/prefill/pattern.h"

#include <stdlib.h>

#include "ref/ground/arith.h"

size_t kv_pattern_room(const kv_grid *x) {
  int64_t most = kv_grid_pairs(x);
  return (size_t)(most > x->tokens ? most : x->tokens) + 2 * (size_t)x->blocks;
}

int kv_ranked_order(const void *a, const void *b) {
  const kv_ranked *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? 1 : -1;
  return (x->at > y->at) - (x->at < y->at);
}

static void rank(size_t n, kv_ranked *x) {
  qsort(x, n, sizeof *x, kv_ranked_order);
}

/* --- what is taken ------------------------------------------------------- */

static void take_pair(kv_taking *x, int i, int j) {
  int64_t at = kv_grid_at(x->grid, i, j);
  if (!x->left || at < 0 || x->in[at]) return;
  x->in[at] = 1;
  x->kept += x->mass[at];
  x->left--;
}

static void take_column(kv_taking *x, int j) {
  for (int i = x->grid->blocks - 1; i >= j && x->left; i--) take_pair(x, i, j);
}

static void take_diagonal(kv_taking *x, int back) {
  for (int i = x->grid->blocks - 1; i >= back && x->left; i--)
    take_pair(x, i, i - back);
}

/* --- vertical and slash -------------------------------------------------- */

/* line[blocks] becomes the lines of one kind in their order, `at` being which,
 * `value` the gamma at which each enters. sum: [tokens] by column or by
 * distance; spare: room for `tokens`. */
static void make_lines(const kv_grid *g, const int64_t *sum, kv_ranked *spare,
                       kv_ranked *line) {
  int64_t gamma = 0, n = 0;
  for (int b = 0; b < g->blocks; b++) line[b] = (kv_ranked){.at = b};
  for (int s = 0; s < g->tokens; s++) {
    line[s / g->block].value += sum[s];
    spare[s] = (kv_ranked){sum[s], s};
  }
  line[0].value = INT64_MAX;
  rank((size_t)g->blocks, line);
  rank((size_t)g->tokens, spare);
  for (int64_t r = 0; r < g->blocks; r++) {
    while (n < r * g->block - 1) gamma += spare[n++].value;
    line[r].value = gamma;
  }
}

static void take_vertical_slash(const kv_pattern_of *of, kv_ranked *room,
                                kv_taking *x) {
  const kv_grid *g = of->grid;
  kv_ranked *column = room, *slash = room + g->blocks;
  int c = 0, s = 0;
  make_lines(g, of->column, room + 2 * g->blocks, column);
  make_lines(g, of->distance, room + 2 * g->blocks, slash);
  while (x->left && (c < g->blocks || s < g->blocks))
    if (s == g->blocks || (c < g->blocks && column[c].value <= slash[s].value))
      take_column(x, (int)column[c++].at);
    else
      take_diagonal(x, (int)slash[s++].at);
}

/* --- A-shape ------------------------------------------------------------- */

static void take_a_shape(const kv_pattern_of *of, kv_ranked *room,
                         kv_taking *x) {
  (void)room;
  take_column(x, 0);
  for (int back = 0; back < of->grid->blocks && x->left; back++)
    take_diagonal(x, back);
}

/* --- top-k of pooled blocks ---------------------------------------------- */

static void take_block_topk(const kv_pattern_of *of, kv_ranked *room,
                            kv_taking *x) {
  const kv_grid *g = of->grid;
  for (int i = 0; i < g->blocks; i++) {
    kv_ranked *row = room + g->first[i];
    int n = i - g->from[i] + 1;
    for (int j = 0; j < n; j++)
      row[j] = (kv_ranked){kv_key(of->pooled[g->first[i] + j]), g->from[i] + j};
    rank((size_t)n, row);
  }
  for (int k = 0; k < g->blocks && x->left; k++)
    for (int i = g->blocks - 1; i >= 0; i--)
      if (k < g->first[i + 1] - g->first[i])
        take_pair(x, i, (int)room[g->first[i] + k].at);
}

const kv_pattern kv_patterns[KV_PATTERNS] = {
    {"vertical_slash", "vertical-slash", take_vertical_slash},
    {"a_shape", "A-shape", take_a_shape},
    {"block_topk", "block top-k", take_block_topk}};
