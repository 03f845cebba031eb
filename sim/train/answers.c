/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of attention that give recorded answers: sim/train/answers.h.
 */
#include "sim/train/answers.h"

#include "traces/trace/rows.h"

/* Where token t's row stands, or -1. */
static int row_of(const kv_layer_data *data, int t) {
  int low = 0, high = data->n_rows - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (kv_row_token(data, middle) < t)
      low = middle + 1;
    else
      high = middle;
  }
  return high >= 0 && kv_row_token(data, low) == t ? low : -1;
}

static kv_rc head(const kv_train_piece *piece, kv_row_probs *rows,
                  void (*see)(void *self, const kv_answer_row *row), void *self,
                  kv_err *e) {
  const kv_trace *t = piece->of->trace;
  for (int i = 0; i < t->n_answers; i++)
    for (int at = t->answer[i].start - 1; at < t->answer[i].end - 1; at++) {
      int row = row_of(rows->data, at);
      if (row < 0 || at < piece->first || at >= piece->first + piece->count)
        continue;
      if (!kv_row_probs_take(rows, row, 1))
        return kv_fail(e, KV_INPUT,
                       "%s: a logit of token %d in layer %d is not finite",
                       t->name, at, rows->data->layer);
      kv_answer_row seen = {rows->g, at, &t->answer[i], rows->p, rows->stride};
      see(self, &seen);
    }
  return KV_OK;
}

kv_rc kv_train_answers(const kv_train_piece *piece, int at,
                       const kv_kernels *kernels,
                       void (*see)(void *self, const kv_answer_row *row),
                       void *self, kv_err *e) {
  const kv_trace *t = piece->of->trace;
  kv_row_probs rows;
  if (t->n_answers == 0) return KV_OK;
  kv_rc rc = kv_row_probs_init(&rows, &t->shape, &t->layer[at].data, kernels,
                               t->shape.n_tokens, e);
  for (int g = 0; g < t->shape.n_kv_heads && !rc; g++) {
    kv_row_probs_head(&rows, g);
    rc = head(piece, &rows, see, self, e);
  }
  kv_row_probs_release(&rows);
  return rc;
}
