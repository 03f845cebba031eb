/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_attention_layer of traces/trace/attention.h. Work is divided into blocks
 * of rows; each has its own sums, which are added in order afterwards, so that
 * the number of threads changes no digit.
 */
#include "traces/trace/attention.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/threads.h"
#include "traces/trace/critical.h"
#include "traces/trace/rows.h"

typedef struct scratch {
  kv_row_probs rows;
  kv_critical critical;
  float *log; /* [tokens] */
} scratch;

typedef struct job {
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  int blocks, group;
  kv_attention *sums; /* [n_kv_heads][blocks][group], not yet divided */
} job;

/* -sum of p log p. For p below the smallest normal number the term is 0. */
static double entropy(const scratch *x, int n, const float *p) {
  double sum = 0;
  for (int j = 0; j < n; j++) x->log[j] = p[j] < FLT_MIN ? 1.0f : p[j];
  x->rows.kernel->log(x->log, n, x->log);
  for (int j = 0; j < n; j++) sum -= (double)p[j] * (double)x->log[j];
  return sum;
}

/* The token that an answer repeats and row `token` should find; -1: none. */
static int source_of(const kv_trace *t, int token) {
  for (int i = 0; i < t->n_answers; i++) {
    const kv_answer *a = &t->answer[i];
    int at = token + 1 - a->start;
    if (at < 0 || token + 1 >= a->end) continue;
    int source = a->source_start + at;
    return source < a->source_end && source <= token ? source : -1;
  }
  return -1;
}

static double mass_of(const float *p, int from, int to) {
  double sum = 0;
  for (int j = from; j < to; j++) sum += (double)p[j];
  return sum;
}

static void add_row(const job *w, scratch *x, int token, const float *p,
                    kv_attention *sums) {
  int n = token + 1, source = source_of(w->t, token);
  int recent = n < KV_ATTENTION_RECENT ? 0 : n - KV_ATTENTION_RECENT;
  if (source >= 0) {
    sums->asked++;
    sums->needle += (double)p[source];
  }
  if (token < KV_ATTENTION_FROM) return;
  sums->rows++;
  sums->entropy += entropy(x, n, p);
  sums->first += (double)p[0];
  sums->recent += mass_of(p, recent, n);
  sums->tokens += (double)kv_critical_tokens(&x->critical, n, p) /
                  (n - kv_layer_first(w->data, token));
}

/* False: a logit is not finite. */
static bool do_block(const job *w, scratch *x, int b) {
  const kv_row_probs *r = &x->rows;
  int first = b * r->most, left = w->data->n_rows - first;
  int count = left < r->most ? left : r->most;
  kv_attention *sums =
      w->sums +
      ((size_t)r->g * (size_t)w->blocks + (size_t)b) * (size_t)w->group;
  if (!kv_row_probs_take(&x->rows, first, count)) return false;
  for (int i = 0; i < count * w->group; i++)
    add_row(w, x, kv_row_token(w->data, first + i / w->group),
            r->p + (size_t)i * r->stride, &sums[i % w->group]);
  return true;
}

static bool take(const job *w, scratch *x) {
  const kv_shape *s = &w->t->shape;
  size_t n = (size_t)s->n_tokens;
  x->log = kv_zalloc(n, sizeof *x->log);
  return !kv_row_probs_init(&x->rows, s, w->data, w->kernel, s->n_tokens,
                            NULL) &&
         kv_critical_init(&x->critical, s->n_tokens) && x->log;
}

static void give_back(scratch *x) {
  if (!x) return;
  kv_row_probs_release(&x->rows);
  kv_critical_release(&x->critical);
  free(x->log);
  free(x);
}

/* Longest rows first, so that the blocks that finish last are short. */
static kv_rc run(const job *w, kv_err *e) {
  int heads = w->t->shape.n_kv_heads, lacking = 0, bad = 0;
#pragma omp parallel num_threads(kv_threads()) reduction(+ : lacking, bad)
  {
    scratch *x = kv_zalloc(1, sizeof *x);
    kv_float_ground();
    bool ready = x && take(w, x);
    lacking += !ready;
    for (int g = 0; g < heads; g++) {
      if (ready) kv_row_probs_head(&x->rows, g);
#pragma omp for schedule(dynamic) nowait
      for (int b = 0; b < w->blocks; b++)
        if (ready) bad += !do_block(w, x, w->blocks - 1 - b);
    }
    give_back(x);
  }
  if (lacking) return kv_no_memory(e, "rows of attention", 0);
  if (!bad) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: layer %d: a logit is not finite", w->t->path,
                 w->data->layer);
}

static void add(const kv_attention *from, kv_attention *to) {
  to->rows += from->rows;
  to->entropy += from->entropy;
  to->first += from->first;
  to->recent += from->recent;
  to->tokens += from->tokens;
  to->asked += from->asked;
  to->needle += from->needle;
}

/* Divides sums into means. */
static void divide(kv_attention *a) {
  double rows = a->rows ? (double)a->rows : 1;
  a->entropy /= rows;
  a->first /= rows;
  a->recent /= rows;
  a->tokens /= rows;
  a->needle /= a->asked ? (double)a->asked : 1;
}

static void add_up(const job *w, kv_attention *out) {
  for (int h = 0; h < w->t->shape.n_heads; h++) {
    size_t g = (size_t)(h / w->group), m = (size_t)(h % w->group);
    out[h] = (kv_attention){0};
    for (size_t b = 0; b < (size_t)w->blocks; b++)
      add(&w->sums[(g * (size_t)w->blocks + b) * (size_t)w->group + m],
          &out[h]);
    divide(&out[h]);
  }
}

kv_rc kv_attention_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                         kv_attention *out, kv_err *e) {
  const kv_layer_data *data = &t->layer[i].data;
  int most = kv_row_probs_most(&t->shape);
  job w = {.t = t, .data = data, .kernel = kernel};
  w.group = kv_group(&t->shape);
  w.blocks = (data->n_rows + most - 1) / most;
  size_t n = (size_t)w.blocks * (size_t)t->shape.n_heads;
  kv_rc rc = kv_trace_scan_layer(t, i, e);
  if (rc) return rc;
  w.sums = kv_zalloc(n, sizeof *w.sums);
  if (!w.sums) return kv_no_memory(e, "sums of attention", n * sizeof *w.sums);
  rc = run(&w, e);
  if (!rc) add_up(&w, out);
  free(w.sums);
  return rc ? rc : kv_trace_damaged(t, e);
}

const char *kv_attention_word(const kv_attention *a) {
  if (a->asked && a->needle >= 0.3) return "retrieval";
  if (!a->rows) return "none";
  if (a->first >= KV_ATTENTION_SINK) return "sink";
  if (a->recent >= 0.5) return "local";
  return "broad";
}
