/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_choices_layer: sim/inspect/selection.h. A KV head is one thread's: a
 * lane to which its tokens are appended up to each row in turn.
 */
#include "sim/inspect/selection.h"

#include <stdlib.h>

#include "ref/ground/arith.h"
#include "ref/parts/votes.h"

const char *const kv_choices_adapter[KV_CHOICES_ADAPTERS] = {"vanilla",
                                                             "snapkv", "rkv"};
const int kv_choices_percent[KV_CHOICES_SHARES] = {60, 90};

/* RN(percent / 100 * 2^20). */
static const int32_t share_of[KV_CHOICES_SHARES] = {629146, 943718};

/* What a thread has. */
typedef struct eye {
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  kv_choices *out;
  kv_needs needs;
  kv_lane lane;
  kv_work work;
  int32_t *entry; /* [n_tokens] */
  float *q;       /* [group][d] */
} eye;

static kv_voters voters(int adapter, int share, bool calibrated) {
  return (kv_voters){.window = 1,
                     .kernel = 7,
                     .p = share_of[share],
                     .adapter = adapter,
                     .calibrate =
                         calibrated ? KV_CALIBRATE_BISECT : KV_CALIBRATE_NONE,
                     .temperatures = KV_TEMPERATURES_EVERY,
                     .lambda = 0.07f,
                     .threshold = 0.5f};
}

static bool open_eye(eye *x, int g) {
  const kv_shape *s = &x->t->shape;
  kv_voters all = voters(KV_ADAPT_RKV, 0, true);
  kv_err e;
  x->work.size = KV_WORK(s->n_tokens) + kv_poll_work(s, &all);
  x->work.base = aligned_alloc(64, (x->work.size + 63) / 64 * 64);
  x->entry = kv_zalloc((size_t)s->n_tokens, sizeof *x->entry);
  x->q = kv_zalloc((size_t)(kv_group(s) * s->d), sizeof *x->q);
  if (!x->work.base || !x->entry || !x->q) return false;
  for (int j = 0; j < s->n_tokens; j++) x->entry[j] = j;
  if (kv_lane_init(&x->lane, s, &x->needs, x->kernel, g, &e)) return false;
  kv_lane_begin(&x->lane, &x->needs, x->data);
  return true;
}

static void close_eye(eye *x) {
  kv_lane_release(&x->lane);
  free(x->work.base);
  free(x->entry);
  free(x->q);
}

/* The queries of a row of all heads of the lane. */
static void take_queries(eye *x, int row) {
  const kv_shape *s = &x->t->shape;
  size_t d = (size_t)s->d, size = kv_dtype_size(x->data->q_dtype);
  for (int h = 0; h < x->lane.queries; h++) {
    size_t at = (size_t)(x->lane.first_head + h) * (size_t)x->data->n_rows +
                (size_t)row;
    x->kernel->widen(x->data->q_dtype, (const char *)x->data->q + at * d * size,
                     d, x->q + (size_t)h * d);
  }
}

/* How many tokens the query votes for. */
static int count(const kv_poll *p) {
  int n = 0;
  for (int j = 0; j < p->n; j++) n += p->votes[j];
  return n;
}

static kv_poll ask(eye *x, int n, const kv_voters *o, float *temperature) {
  kv_at at = {.shape = &x->t->shape,
              .needs = &x->needs,
              .step = n,
              .kernels = x->kernel,
              .work = &x->work};
  x->work.used = 0;
  *temperature = 0;
  return kv_poll_ask(&at, &x->lane, o, n, x->entry, NULL, x->q, temperature);
}

/* LN of the sum of exponentials of z. */
static float lse_of(const eye *x, const kv_poll *p) {
  float most = p->z[0];
  for (int j = 1; j < p->n; j++) most = kv_max(most, p->z[j]);
  int64_t sum = x->kernel->exp_sum(p->z, most, p->n, p->e);
  return kv_add(most, kv_log(kv_unfix(sum)));
}

static void add_map(const eye *x, const kv_poll *p, int32_t *map) {
  int64_t n = x->t->shape.n_tokens;
  for (int64_t j = 0; j < p->n; j++)
    if (p->votes[j]) {
#pragma omp atomic
      map[j * KV_CHOICES_BINS / n]++;
    }
}

static void look(eye *x, int r, int adapter, int share, kv_choices_row *to) {
  kv_selected *own = &to->of[adapter][share];
  int n = x->out->token[r] + 1;
  kv_voters plain = voters(adapter, share, false);
  kv_voters calibrated = voters(adapter, share, true);
  kv_poll p = ask(x, n, &plain, &own->temperature);
  own->before = count(&p);
  if (adapter == KV_ADAPT_VANILLA) {
    if (share == 0) to->lse = lse_of(x, &p);
    own->temperature = 1;
  } else {
    p = ask(x, n, &calibrated, &own->temperature);
  }
  own->after = count(&p);
  add_map(x, &p, x->out->map[r][adapter][share]);
}

static void do_head(eye *x, int g) {
  for (int r = 0; r < x->out->rows; r++) {
    int token = x->out->token[r];
    kv_lane_append(&x->lane, x->lane.n, token + 1 - x->lane.n);
    take_queries(x, kv_layer_row(x->data, token));
    for (int a = 0; a < KV_CHOICES_ADAPTERS; a++)
      for (int s = 0; s < KV_CHOICES_SHARES; s++)
        look(x, r, a, s, &x->out->head[g].row[r]);
  }
}

static int token_of(const kv_layer_data *data, int row) {
  return data->rows ? data->rows[row] : row;
}

/* Evenly among the recorded rows from token FROM on, the last among them. */
static void choose_rows(const kv_layer_data *data, kv_choices *out) {
  int first = 0;
  while (first < data->n_rows && token_of(data, first) < KV_CHOICES_FROM)
    first++;
  int all = data->n_rows - first;
  out->rows = all < KV_CHOICES_ROWS ? all : (int)KV_CHOICES_ROWS;
  for (int r = 0; r < out->rows; r++)
    out->token[r] =
        token_of(data, first + (int)((int64_t)(r + 1) * all / out->rows) - 1);
}

kv_rc kv_choices_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                       int threads, kv_choices *out, kv_err *e) {
  const kv_layer_data *data = &t->layer[i].data;
  int lacking = 0;
  kv_rc rc = kv_trace_scan_layer(t, i, e);
  if (rc) return rc;
  choose_rows(data, out);
#pragma omp parallel for num_threads(threads) reduction(+ : lacking)           \
    schedule(dynamic)
  for (int g = 0; g < t->shape.n_kv_heads; g++) {
    eye x = {.t = t, .data = data, .kernel = kernel, .out = out};
    kv_float_ground();
    bool ready = open_eye(&x, g);
    lacking += !ready;
    if (ready) do_head(&x, g);
    close_eye(&x);
  }
  if (lacking) return kv_no_memory(e, "rows of attention", 0);
  return kv_trace_damaged(t, e);
}
