/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows of a grid form one line of a figure (a variant), and its name: a
 * method, and those of its parameters that differ between rows at the same
 * budget of the same trace, prompt length and observation, "quest page=8". A
 * parameter that only follows the budget makes no variant of its own. Replayed
 * decisions are a method of their own, under the name that they declare.
 */
#ifndef KV_ANALYSIS_VARIANTS_H
#define KV_ANALYSIS_VARIANTS_H

#include "analysis/database/grid.h"

/* The look of a line (analysis/page/looks.c): numbers of its color, shape of
 * marks, and dashes; small: its marks are small. line: from 1 on, the number by
 * which a reader switches it off on the whole page; 0: not switchable. */
typedef struct kv_look {
  int colour, shape, dash;
  bool small;
  int line;
} kv_look;

/* The variants of a grid. */
typedef struct kv_variants {
  int n;
  char **label;  /* [n] their names, in the order of the texts */
  int rows, *of; /* [rows of the grid] number of the row's variant */
  kv_look *look; /* [n] set by kv_look_all; NULL: looks follow numbers */
} kv_variants;

/* Finds them. g has the columns trace, prompt_len, observe, method, params,
 * budget. False: no memory. Free *out with kv_variants_free, also after a
 * failure. */
bool kv_variants_find(const kv_grid *g, kv_variants *out);
void kv_variants_free(kv_variants *v); /* accepts zeroed */
/* The number of the variant with that label, or -1. */
int kv_variants_same(const kv_variants *v, const char *label);

#endif
