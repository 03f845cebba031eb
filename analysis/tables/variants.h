/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows of a grid form one line of a figure (a variant), and what it is
 * called: a method, and those of its parameters that differ between rows at the
 * same budget of the same trace, prompt length and observation, "quest page=8".
 * A parameter that only follows the budget makes no line of its own. Decisions
 * that were replayed are a method of their own by the name that they declare.
 */
#ifndef KV_ANALYSIS_VARIANTS_H
#define KV_ANALYSIS_VARIANTS_H

#include "analysis/database/grid.h"

/* How a line is drawn (analysis/page/looks.c): numbers of a colour, of the
 * shape of its marks and of its dashes; small: marks are. line: from 1 on, by
 * which a reader switches it off all over the page; 0: it stays. */
typedef struct kv_look {
  int colour, shape, dash;
  bool small;
  int line;
} kv_look;

/* The variants of a grid. */
typedef struct kv_variants {
  int n;
  char **label;  /* [n] what each is called, in the order of the texts */
  int rows, *of; /* [rows of the grid] number of the row's variant */
  kv_look *look; /* [n] set by kv_look_all; NULL: looks go by numbers */
} kv_variants;

/* Finds them. g has the columns trace, prompt_len, observe, method, params,
 * budget. False: no memory. * Free *out with kv_variants_free, also after a
 * failure. */
bool kv_variants_find(const kv_grid *g, kv_variants *out);
void kv_variants_free(kv_variants *v); /* accepts zeroed */
/* The number of the variant with that label; -1: there is none. */
int kv_variants_same(const kv_variants *v, const char *label);

#endif
