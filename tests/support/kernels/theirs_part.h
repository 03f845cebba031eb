/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to theirs.c and theirs_files.c: the decisions and outputs that a
 * made-up kernel records, and the files that `kvreplay grade` reads. Any
 * failure fails the running test.
 */
#ifndef KV_TESTS_THEIRS_PART_H
#define KV_TESTS_THEIRS_PART_H

#include "tests/support/kernels/theirs.h"

#include <stddef.h>
#include <stdint.h>

enum {
  MOST = 1024,
  HEADS_MOST = 16,
  LAYERS_MOST = 8
}; /* steps, heads, layers */

/* The lists of one layer, as in a decisions file: for each step one for each
 * head, all items contiguous. */
typedef struct lists {
  int32_t step[MOST];                   /* [steps] tokens seen */
  int64_t start[MOST * HEADS_MOST + 2]; /* [n + 2] where each list begins in
                                           item; [n]: the current list, which so
                                           far ends at [n + 1] */
  int32_t *item;                        /* token numbers; grows */
  size_t room;                          /* items that it holds */
  int steps, n;                         /* steps, lists */
} lists;

/* Lists of all layers. */
typedef struct book {
  lists list[LAYERS_MOST];
} book;

/* Outputs and log-sum-exps by layer. */
typedef struct answers {
  float *o[LAYERS_MOST];   /* [elements]: [head][row][d_v] */
  float *lse[LAYERS_MOST]; /* [rows]: [head][row] */
  size_t rows, elements;
} answers;

/* An empty book; book_close frees it. */
book *book_open(void);
void list_put(lists *l, int32_t item); /* adds an item to the current list */
void list_end(lists *l);               /* ends it; the next one begins */
/* Permutes the items of the list that ended last, into an order that is no
 * ranking: a method that keeps its own order must not do that. */
void list_permute(lists *l);
/* Writes the book as a decisions file at path, of views or of what is kept,
 * with as many heads (lanes) a step, and frees it. */
void book_close(const theirs *t, book *b, bool views, int heads,
                const char *path);

/* Allocates memory for the outputs of a trace; answers_close writes them as a
 * safetensors file (layers.L.o, layers.L.lse) at path and frees them. */
void answers_open(const theirs *t, answers *a);
void answers_close(const theirs *t, answers *a, const char *path);

#endif
