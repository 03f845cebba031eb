/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows form one line of a figure: a method, and those of its
 * parameters that differ between rows at the same budget of the same trace.
 * A parameter that only follows the budget makes no line of its own. Decisions
 * that were replayed are a method of their own by the name that they declare.
 */
#ifndef KV_ANALYSIS_VARIANTS_H
#define KV_ANALYSIS_VARIANTS_H

#include "analysis/database/grid.h"

/* How a line is drawn (looks.c). */
typedef struct kv_look {
  int colour, shape, dash;
  bool small;
} kv_look;

typedef struct kv_variants {
  int n; /* in the order of their labels */
  char **label;
  int rows, *of; /* [rows of the grid] number of the variant */
  kv_look *look; /* [n], or NULL: by their numbers */
} kv_variants;

/* g has trace, prompt_len, method, params, budget. false: no memory. Cost
 * grows with the square of the rows of a method. */
bool kv_variants_find(const kv_grid *g, kv_variants *out);
void kv_variants_free(kv_variants *v);
/* By label, for another grid of the same rows; -1 where there is none. */
int kv_variants_same(const kv_variants *v, const char *label);

#endif
