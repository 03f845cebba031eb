/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of attention that give recorded answers, for trainers that learn from
 * them: of an answer from token `start` to `end` the rows of the tokens start -
 * 1 to end - 2, which predict it. Rows whose query the trace does not record
 * are left out. Cost: the attention of these rows.
 */
#ifndef KV_SIM_TRAIN_ANSWERS_H
#define KV_SIM_TRAIN_ANSWERS_H

#include "ref/kernels/kernels.h"
#include "sim/train/data.h"

/* One row of all query heads that read one KV head; valid during the call. */
typedef struct kv_answer_row {
  int g;                   /* the KV head */
  int token;               /* whose query it is */
  const kv_answer *answer; /* that it helps to give */
  const float *p; /* [group][stride] probabilities of query head m of the group
                     over tokens 0 .. token, at p + m * stride */
  size_t stride;  /* floats */
} kv_answer_row;

/* Calls see(self, row) for every such row whose token is in the piece, in the
 * at-th layer that its trace records: KV head by KV head, answers and tokens
 * ascending. KV_INPUT: a logit is not finite; KV_RESOURCE: memory. */
kv_rc kv_train_answers(const kv_train_piece *piece, int at,
                       const kv_kernels *kernels,
                       void (*see)(void *self, const kv_answer_row *row),
                       void *self, kv_err *e);

#endif
