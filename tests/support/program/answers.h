/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up evaluations, the same every time, for tests of the database and of
 * the report, like the runs of tests/support/rows.h: texts and numbers from
 * formulas. Their model is called made-up, so that nobody mistakes them for
 * measurements.
 */
#ifndef KV_TESTS_ANSWERS_H
#define KV_TESTS_ANSWERS_H

#include "sim/store/evaluation.h"

enum {
  KV_ANSWERS_TASKS = 3,   /* needle, which dense answers; words, which it
                             does not; prose, where nothing is asked */
  KV_ANSWERS_METHODS = 4, /* the first is dense */
  KV_ANSWERS_VALUES = 12  /* room for numbers */
};

/* An evaluation and what it points to; not to be copied. */
typedef struct kv_answers_row {
  char item[32], answer[65], request[65];
  kv_evaluated value[KV_ANSWERS_VALUES];
  kv_evaluation row;
} kv_answers_row;

/* Fills out. Counts from 0; of a request an item has two questions. */
void kv_answers_make(int task, int item, int question, int method,
                     kv_answers_row *out);
/* Puts those of items first..last - 1, of all tasks, questions and methods,
 * into the database at path. flip: one of them has another answer, as from a
 * wrong kernel. Continues after KV_DIFFERENT, which it then returns. */
kv_rc kv_answers_put(const char *path, int first, int last, int flip,
                     kv_err *e);

#endif
