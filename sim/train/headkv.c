/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of HeadKV, one for each query head of each layer: how much of its
 * attention finds what an answer repeats.
 *
 *   of a row that gives a token of an answer whose source has N tokens:
 *     the probabilities of the source's tokens among the N largest of the row,
 *     added, divided by N (of equals the earlier counts as larger)
 *   score: the mean over answers of the sum over an answer's rows
 *
 * Fu et al. 2024, HeadKV, as in the authors' code (commit 0862a09), which does
 * this while the model answers about a needle, and averages over contexts and
 * depths; there a needle is the sentence with the fact (and, for the score that
 * reasons, wrong ones beside it), here it is what the recording names as the
 * answer's source. Their test that the answer was right is left out: recorders
 * say of each answer whether it is, and can record those that are.
 * Cost: the attention of the rows that give answers.
 */
#include "sim/train/answers.h"
#include "sim/train/trainer.h"

static const kv_param table[] = {{.name = NULL}};

/* Sums of a layer: of each query head, then the number of answers. */
static kv_rc open(kv_training *t, kv_err *e) {
  int64_t heads = t->data->shape.n_heads;
  (void)e;
  kv_train_declare(t, "scores", 1, &heads);
  t->sums = (size_t)heads + 1;
  return KV_OK;
}

/* Is p[i] among the n largest of p[0..count)? */
static bool among(const float *p, int count, int n, int i) {
  int above = 0;
  for (int j = 0; j < count && above < n; j++)
    above += p[j] > p[i] || (p[j] == p[i] && j < i);
  return above < n;
}

static double found(const float *p, int count, const kv_answer *a) {
  int n = a->source_end - a->source_start;
  double sum = 0;
  for (int i = a->source_start; i < a->source_end && i < count; i++)
    if (among(p, count, n, i)) sum += (double)p[i];
  return n > 0 ? sum / n : 0;
}

static void see(void *self, const kv_answer_row *row) {
  const kv_train_task *q = self;
  const kv_shape *s = &q->piece->of->trace->shape;
  int group = kv_group(s);
  for (int m = 0; m < group; m++)
    q->sum[row->g * group + m] +=
        found(row->p + (size_t)m * row->stride, row->token + 1, row->answer);
  if (row->g == 0 && row->token == row->answer->start - 1)
    q->sum[s->n_heads] += 1;
}

/* A score is no loss: nothing is said of traces that are held out. */
static kv_rc learn(const kv_train_task *q, kv_train_loss *out, kv_err *e) {
  *out = (kv_train_loss){0};
  return q->sum ? kv_train_answers(q->piece, q->at, q->t->kernels, see,
                                   (void *)q, e)
                : KV_OK;
}

static kv_rc finish(const kv_training *t, int layer, const double *sum,
                    float *value, kv_err *e) {
  int heads = t->data->shape.n_heads;
  (void)layer, (void)e;
  for (int h = 0; h < heads; h++)
    value[h] = sum[heads] > 0 ? (float)(sum[h] / sum[heads]) : 0;
  return KV_OK;
}

const kv_trainer kv_trainer_headkv = {
    .name = "headkv",
    .title = "scores of query heads, from how much of answers they find",
    .format = "kvreplay-headkv",
    .params = table,
    .params_size = 0,
    .pace = {.passes = 1},
    .dtype = KV_ST_F32,
    .answers = true,
    .open = open,
    .learn = learn,
    .finish = finish,
};
