/* SPDX-License-Identifier: Apache-2.0
 *
 * Gates of DuoAttention, one for each KV head of each layer.
 *
 *   D[g]  the mean of (full - stream)^2 over rows that give answers, query
 *         heads of the group and channels, in shares of the mean of full^2 over
 *         the layer; full: the head's output, stream: its output from the first
 *         `sink` and the last `recent` tokens and its own
 *   minimise over the gates, each in [0, 1]:
 *     mean over all of (1 - gate)^2 D[g] + penalty * gate
 *   gate = max(0, 1 - penalty / (2 D[g]))
 *
 * Xiao et al. 2024, DuoAttention: gates mix both outputs in every layer, and
 * minimise the squared difference of the last hidden state at the tokens of
 * passkeys plus 0.05 times the mean gate, by AdamW with rate 0.02. A trace has
 * no hidden states and no projection behind the attention, so heads are
 * compared where they leave it, each by itself; then the best gates can be
 * written down, and there is nothing to descend. The authors train with 128 and
 * 256 tokens and evaluate with 64 and 256: the latter, as the method's
 * defaults. Traces without answers teach it nothing.
 * Cost: the attention of the rows that give answers.
 */
#include "sim/train/answers.h"
#include "sim/train/trainer.h"

#include <string.h>

typedef struct params {
  int sink, recent;
  float penalty;
} params;

static const kv_param table[] = {
    KV_INT_PARAM("sink", params, sink, "64", 0, 1 << 30, "tokens",
                 "first tokens of a stream; 64 as the method's"),
    KV_INT_PARAM("recent", params, recent, "256", 1, 1 << 30, "tokens",
                 "last tokens of a stream; 256 as the method's"),
    KV_REAL_PARAM("penalty", params, penalty, "0.05", 0, 1000,
                  "weight of the mean gate; 0.05 as the authors train"),
    {.name = NULL}};

/* Sums of a layer: the squared differences of each KV head, then the squares of
 * all of them. */
static kv_rc open(kv_training *t, kv_err *e) {
  int64_t heads = t->data->shape.n_kv_heads;
  (void)e;
  kv_train_declare(t, "gates", 1, &heads);
  t->sums = (size_t)heads + 1;
  return KV_OK;
}

typedef struct work {
  const kv_train_task *q;
  const params *o;
  int d, group, g;            /* g: whose values v holds; -1: nobody's */
  float *v;                   /* [tokens][d] */
  double *full, *stream;      /* [d] of one query head */
  double *difference, square; /* [KV heads]; sums of this piece */
} work;

static void values_of(work *w, int g) {
  const kv_trace *t = w->q->piece->of->trace;
  size_t n = (size_t)t->shape.n_tokens * (size_t)w->d;
  const char *from = t->layer[w->q->at].data.v;
  if (w->g == g) return;
  w->g = g;
  w->q->t->kernels->widen(t->shape.dtype,
                          from + (size_t)g * n * kv_dtype_size(t->shape.dtype),
                          n, w->v);
}

static void add(const work *w, int from, int to, const float *p, double *out,
                double *mass) {
  for (int j = from; j < to; j++) {
    const float *v = w->v + (size_t)j * (size_t)w->d;
    *mass += (double)p[j];
    for (int x = 0; x < w->d; x++) out[x] += (double)p[j] * (double)v[x];
  }
}

/* Both outputs of a query head; the row sees tokens 0 .. at. */
static void outputs(work *w, const float *p, int at) {
  size_t bytes = (size_t)w->d * sizeof(double);
  int late = at - w->o->recent, early = w->o->sink;
  double mass = 0, rest = 0;
  memset(w->stream, 0, bytes);
  if (late < early) early = late > 0 ? late : 0;
  add(w, 0, early, p, w->stream, &mass);
  add(w, late > early ? late : early, at + 1, p, w->stream, &mass);
  memcpy(w->full, w->stream, bytes);
  if (late > early) add(w, early, late, p, w->full, &rest);
  for (int x = 0; x < w->d && mass > 0; x++) {
    w->full[x] /= mass + rest;
    w->stream[x] /= mass;
  }
}

static void see(void *self, const kv_answer_row *row) {
  work *w = self;
  values_of(w, row->g);
  for (int m = 0; m < w->group; m++) {
    outputs(w, row->p + (size_t)m * row->stride, row->token);
    for (int x = 0; x < w->d; x++) {
      double by = w->full[x] - w->stream[x];
      w->difference[row->g] += by * by;
      w->square += w->full[x] * w->full[x];
    }
  }
}

/* A loss is the squared difference as a share of the output's square. */
static void judge(const work *w, int heads, kv_train_loss *out) {
  *out = (kv_train_loss){.weight = w->square};
  for (int g = 0; g < heads; g++) {
    double left = 1 - (double)w->q->value[g];
    out->loss += left * left * w->difference[g];
    out->without += w->difference[g];
    if (w->q->sum) w->q->sum[g] += w->difference[g];
  }
  if (w->q->sum) w->q->sum[heads] += w->square;
}

static kv_rc learn(const kv_train_task *q, kv_train_loss *out, kv_err *e) {
  const kv_shape *s = &q->piece->of->trace->shape;
  size_t heads = (size_t)s->n_kv_heads, d = (size_t)s->d_v;
  size_t values = (size_t)s->n_tokens * d;
  work w = {
      .q = q, .o = q->t->params, .d = s->d_v, .group = kv_group(s), .g = -1};
  kv_rc rc = kv_scratch_reserve(q->scratch, values + 4 * d + 2 * heads, e);
  if (rc) return rc;
  w.v = kv_scratch_take(q->scratch, values);
  w.full = kv_scratch_take(q->scratch, 2 * d);
  w.stream = kv_scratch_take(q->scratch, 2 * d);
  w.difference = kv_scratch_take(q->scratch, 2 * heads);
  memset(w.difference, 0, heads * sizeof(double));
  rc = kv_train_answers(q->piece, q->at, q->t->kernels, see, &w, e);
  judge(&w, s->n_kv_heads, out);
  return rc;
}

static kv_rc finish(const kv_training *t, int layer, const double *sum,
                    float *value, kv_err *e) {
  const params *o = t->params;
  int heads = t->data->shape.n_kv_heads;
  (void)layer, (void)e;
  for (int g = 0; g < heads; g++) {
    double share = sum[heads] > 0 ? sum[g] * heads / sum[heads] : 0;
    double gate = share > 0 ? 1 - (double)o->penalty / (2 * share) : 0;
    value[g] = gate > 0 ? (float)gate : 0;
  }
  return KV_OK;
}

const kv_trainer kv_trainer_duoattention = {
    .name = "duoattention",
    .title = "gates of KV heads, from what a stream would lose of answers",
    .format = "kvreplay-duoattention",
    .params = table,
    .params_size = sizeof(params),
    .pace = {.passes = 1},
    .dtype = KV_ST_F32,
    .answers = true,
    .open = open,
    .learn = learn,
    .finish = finish,
};
