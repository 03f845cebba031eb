/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to theirs.c and theirs_files.c: what a kernel writes down as it
 * goes. Anything that goes wrong fails the running test.
 */
#ifndef KV_TESTS_THEIRS_PART_H
#define KV_TESTS_THEIRS_PART_H

#include "tests/support/kernels/theirs.h"

#include <stddef.h>
#include <stdint.h>

enum { MOST = 1024, HEADS_MOST = 16, LAYERS_MOST = 8 };

typedef struct lists {
  int32_t step[MOST];
  int64_t start[MOST * HEADS_MOST + 2]; /* one more: of the list begun */
  int32_t *item;
  size_t room;
  int steps, n; /* steps, lists */
} lists;

typedef struct book {
  lists list[LAYERS_MOST];
} book;

typedef struct answers {
  float *o[LAYERS_MOST], *lse[LAYERS_MOST];
  size_t rows, elements;
} answers;

book *book_open(void);
void list_put(lists *l, int32_t item);
void list_end(lists *l);     /* the next one may follow */
void list_permute(lists *l); /* the last one: an order that is nobody's */
/* Writes and frees. */
void book_close(const theirs *t, book *b, bool views, int heads,
                const char *path);

void answers_open(const theirs *t, answers *a);
void answers_close(const theirs *t, answers *a, const char *path);

#endif
