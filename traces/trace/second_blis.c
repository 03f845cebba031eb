/* SPDX-License-Identifier: Apache-2.0
 *
 * The second opinion by BLIS: S = Q K' and O = P V by its sgemm, the softmax
 * between them in binary64. It uses nothing of the canonical arithmetic, so
 * that a mistake there shows. Single-threaded, because BLIS' barriers spin,
 * which is slow on shared processors. Its figures are for people; no decision
 * and no digest depends on them.
 */
#define _GNU_SOURCE 1
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* BLIS' header warns under -Wconversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include KV_BLIS_H
#pragma GCC diagnostic pop

#include "traces/trace/check.h"
#include "traces/trace/recompute.h"

enum { SAMPLE = 2048 }; /* most rows a KV head, spread evenly */

typedef struct work {
  const kv_trace *t;
  const kv_layer_data *data;
  const kv_kernels *kernel;
  kv_recompute own;
  float *k, *v; /* [T][d], [T][d_v] of one KV head, binary32 */
  float *s, *o; /* [queries][T], [queries][d_v] */
  double difference, norm, most;
  long rows;
} work;

/* c[m][n] = a[m][k] b, b at row and column strides; row-major a and c. */
static void multiply(long m, long n, long k, float *a, long lda, float *b,
                     long row, long column, float *c, long ldc) {
  float one = 1.0f, zero = 0.0f;
  rntm_t single = BLIS_RNTM_INITIALIZER;
  bli_rntm_set_num_threads(1, &single);
  bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one, a, lda, 1,
               b, row, column, &zero, c, ldc, 1, NULL, &single);
}

/* The logit of a product. */
static double logit(const kv_shape *p, float dot) {
  double s = (double)dot * (double)p->scale, cap = (double)p->softcap;
  return cap > 0 ? cap * tanh(s / cap) : s;
}

/* sink: a logit in addition to those of the products, or NULL. */
static void softmax(const kv_shape *p, const float *sink, long n, float *s) {
  double most = sink ? (double)*sink : (double)-INFINITY, sum = 0;
  for (long j = 0; j < n; j++) most = fmax(most, logit(p, s[j]));
  if (sink) sum = exp((double)*sink - most);
  for (long j = 0; j < n; j++) sum += exp(logit(p, s[j]) - most);
  for (long j = 0; j < n; j++) s[j] = (float)(exp(logit(p, s[j]) - most) / sum);
}

static void compare(work *w, size_t n) {
  for (size_t j = 0; j < n; j++) {
    double o = (double)w->o[j], by = (double)w->own.out[j] - o;
    w->difference += by * by;
    w->norm += o * o;
    w->most = kv_check_worse(w->most, fabs(by));
  }
}

/* A block of rows; tokens after a row's own get weight 0. */
static void do_block(work *w, int g, int first, int count) {
  const kv_shape *p = &w->t->shape;
  long group = kv_group(p), m = count * group, T = p->n_tokens;
  long n = kv_row_token(w->data, first + count - 1) + 1L;
  kv_recompute_block(&w->own, w->kernel, p, w->data, g, first, count);
  multiply(m, n, p->d, w->own.q, p->d, w->k, 1, p->d, w->s, T);
  for (long i = 0; i < m; i++) {
    int token = kv_row_token(w->data, first + (int)(i / group));
    long from = kv_layer_first(w->data, token), seen = token + 1L;
    int head = (int)(g * group + i % group);
    softmax(p, kv_layer_sink(w->data, head), seen - from, w->s + i * T + from);
    for (long j = 0; j < from; j++) w->s[i * T + j] = 0.0f;
    for (long j = seen; j < n; j++) w->s[i * T + j] = 0.0f;
  }
  multiply(m, p->d_v, n, w->s, T, w->v, p->d_v, 1, w->o, p->d_v);
  compare(w, (size_t)m * (size_t)p->d_v);
  w->rows += m;
}

static void widen(const work *w, int g, int d, const void *from, float *to) {
  kv_dtype type = w->t->shape.dtype;
  size_t n = (size_t)w->t->shape.n_tokens * (size_t)d;
  const char *at = from;
  w->kernel->widen(type, at + (size_t)g * n * kv_dtype_size(type), n, to);
}

static void do_head(work *w, int g) {
  const kv_shape *p = &w->t->shape;
  int rows = w->own.rows, n = w->data->n_rows;
  int blocks = (n + rows - 1) / rows, step = (n + SAMPLE - 1) / SAMPLE;
  widen(w, g, p->d, w->data->k, w->k);
  widen(w, g, p->d_v, w->data->v, w->v);
  for (int b = blocks - 1; b >= 0; b -= step) {
    int left = n - b * rows;
    do_block(w, g, b * rows, left < rows ? left : rows);
  }
}

static kv_rc take(work *w, kv_err *e) {
  const kv_shape *p = &w->t->shape;
  kv_rc rc = kv_recompute_init(&w->own, p, e);
  if (rc) return rc;
  size_t m = (size_t)w->own.rows * (size_t)kv_group(p);
  size_t n = (size_t)p->n_tokens, d = (size_t)p->d, d_v = (size_t)p->d_v;
  w->k = kv_zalloc(n * d, sizeof *w->k);
  w->v = kv_zalloc(n * d_v, sizeof *w->v);
  w->s = kv_zalloc(m * n, sizeof *w->s);
  w->o = kv_zalloc(m * d_v, sizeof *w->o);
  if (w->k && w->v && w->s && w->o) return KV_OK;
  return kv_no_memory(e, "the second opinion", (m + d + d_v) * n * 4);
}

kv_rc kv_second_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                      kv_second *out, kv_err *e) {
  static char name[64];
  work w = {.t = t, .data = &t->layer[i].data, .kernel = kernel};
  snprintf(name, sizeof name, "BLIS %s", bli_info_get_version_str());
  *out = (kv_second){.by = name};
  kv_rc rc = take(&w, e);
  for (int g = 0; !rc && g < t->shape.n_kv_heads; g++) do_head(&w, g);
  out->rows = w.rows;
  out->error = w.most;
  out->relative = kv_check_relative(w.difference, w.norm);
  kv_recompute_release(&w.own);
  free(w.k);
  free(w.v);
  free(w.s);
  free(w.o);
  return rc ? rc : kv_trace_damaged(t, e);
}

/* BLIS 0.9 chooses generic, slow kernels on processors newer than itself. A
 * user's own choice stays. */
void kv_second_setup(void) {
#if defined(__x86_64__)
  char text[16];
  int arch = -1;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    arch = BLIS_ARCH_HASWELL;
  }
  if (__builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    arch = BLIS_ARCH_SKX;
  }
  if (arch < 0) return;
  snprintf(text, sizeof text, "%d", arch);
  setenv("BLIS_ARCH_TYPE", text, 0);
#endif
}
