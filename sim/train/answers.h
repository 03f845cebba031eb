/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of attention that give recorded answers: of an answer from token `start`
 * to `end` the rows start - 1 to end - 2. What a trace does not record of them
 * is left out.
 */
#ifndef KV_SIM_TRAIN_ANSWERS_H
#define KV_SIM_TRAIN_ANSWERS_H

#include "ref/kernels/kernels.h"
#include "sim/train/data.h"

/* One row of all query heads that read KV head g: the probabilities of query
 * head m of the group over tokens 0 .. token, at p + m * stride. */
typedef struct kv_answer_row {
  int g, token;
  const kv_answer *answer;
  const float *p;
  size_t stride;
} kv_answer_row;

/* Calls `see` for every such row of a piece, in the at-th layer that its trace
 * records. KV_INPUT: a logit is not finite. */
kv_rc kv_train_answers(const kv_train_piece *piece, int at,
                       const kv_kernels *kernels,
                       void (*see)(void *self, const kv_answer_row *row),
                       void *self, kv_err *e);

#endif
