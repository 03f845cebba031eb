/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a synthetic trace (traces/trace/synth.h): declare everything, then
 * make rows in batches, in parallel, and append them in order. Outputs, if
 * requested, are recomputed one KV head at a time from rows made again.
 */
#include "traces/trace/synth.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"
#include "ref/ground/threads.h"
#include "traces/container/writer.h"
#include "traces/trace/recompute.h"
#include "traces/trace/synth_row.h"

enum { BATCH = 16384 }; /* rows made at once */

typedef void maker(const kv_synth_tables *x, int l, int head, int t,
                   float *row);

typedef struct job {
  const kv_synth *s;
  const kv_kernels *kernel;
  kv_synth_tables tables;
  kv_st_writer *writer;
  unsigned char *batch; /* [BATCH][d] in the trace's type */
} job;

int kv_synth_prompt(int n_tokens) {
  int decode = n_tokens / 8 < 256 ? n_tokens / 8 : 256;
  return n_tokens - decode;
}

static kv_rc check(const kv_synth *s, kv_err *e) {
  const kv_geometry *g = &s->like;
  if (g->d < 8 || g->d > KV_SYNTH_DIM || g->d % 4) {
    return kv_fail(e, KV_USAGE,
                   "the head dimension %d must be a multiple of 4 from 8 to %d",
                   g->d, (int)KV_SYNTH_DIM);
  }
  if (g->n_heads < 1 || g->n_kv_heads < 1 || g->n_heads % g->n_kv_heads) {
    return kv_fail(e, KV_USAGE, "%d query heads do not divide by %d KV heads",
                   g->n_heads, g->n_kv_heads);
  }
  if (g->n_layers < 1 || s->n_tokens < 1 || s->n_tokens > 1 << 23) {
    return kv_fail(e, KV_USAGE,
                   "layers must be at least 1 and tokens from 1 "
                   "to %d",
                   1 << 23);
  }
  if (s->prompt_len >= 1 && s->prompt_len <= s->n_tokens) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "the prompt length %d must be from 1 to %d, the tokens",
                 s->prompt_len, s->n_tokens);
}

static int recorded(const kv_synth *s) {
  return s->n_recorded ? s->n_recorded : s->like.n_layers;
}

int64_t kv_synth_rows(const kv_synth *s) {
  int64_t heads = 2 * (int64_t)s->like.n_kv_heads +
                  (s->output ? 2 : 1) * (int64_t)s->like.n_heads;
  return recorded(s) * heads * s->n_tokens;
}

static int layer_of(const kv_synth *s, int i) {
  return s->n_recorded ? s->layers[i] : i;
}

static const char *const frequencies[] = {"rope.inv_freq",
                                          "rope.inv_freq.windowed"};

/* How many tensors of frequencies: two if layers with a window have others. */
static int kinds(const kv_geometry *g) {
  return g->window && g->theta_windowed > 0 ? 2 : 1;
}

static kv_rc declare_sinks(job *w, int l, kv_err *e) {
  const uint64_t heads = (uint64_t)w->s->like.n_heads;
  char name[40];
  snprintf(name, sizeof name, "layers.%d.sinks", l);
  return kv_st_writer_declare(w->writer, name, KV_ST_F32, 1, &heads, e);
}

static kv_rc declare(job *w, kv_err *e) {
  const kv_synth *s = w->s;
  const kv_geometry *g = &s->like;
  static const kv_st_dtype type[] = {KV_ST_F16, KV_ST_BF16, KV_ST_F32};
  const uint64_t n = (uint64_t)s->n_tokens, d = (uint64_t)g->d, half = d / 2;
  char name[40];
  kv_rc rc = KV_OK;
  for (int i = 0; i < recorded(s); i++) {
    for (int j = 0; !rc && j < 3 + (s->output != 0); j++) {
      int heads = j == 1 || j == 2 ? g->n_kv_heads : g->n_heads;
      const uint64_t shape[3] = {(uint64_t)heads, n, d};
      snprintf(name, sizeof name, "layers.%d.%c", layer_of(s, i), "qkvo"[j]);
      rc = kv_st_writer_declare(w->writer, name, type[g->dtype], 3, shape, e);
    }
    if (!rc && g->sinks) rc = declare_sinks(w, layer_of(s, i), e);
  }
  for (int i = 0; !rc && i < kinds(g); i++)
    rc =
        kv_st_writer_declare(w->writer, frequencies[i], KV_ST_F32, 1, &half, e);
  if (rc) return rc;
  return kv_st_writer_declare(w->writer, "tokens", KV_ST_I32, 1, &n, e);
}

static maker *value_of(const kv_synth *s) {
  return s->shared ? kv_synth_key : kv_synth_value;
}

static void narrow(kv_dtype type, int n, const float *from, void *to) {
  uint16_t *half = to;
  if (type == KV_F32) memcpy(to, from, (size_t)n * 4);
  if (type == KV_F16) {
    for (int i = 0; i < n; i++) half[i] = kv_to_f16(from[i]);
  }
  if (type == KV_BF16) {
    for (int i = 0; i < n; i++) half[i] = kv_to_bf16(from[i]);
  }
}

/* Makes rows [first, first + n) of a tensor, counted over heads and tokens. */
static void make_rows(const job *w, maker *make, int l, int64_t first, int n,
                      unsigned char *to) {
  int T = w->s->n_tokens, d = w->s->like.d;
  kv_dtype type = w->s->like.dtype;
  size_t stride = (size_t)d * kv_dtype_size(type);
#pragma omp parallel num_threads(kv_threads())
  {
    float row[KV_SYNTH_DIM];
    kv_float_ground();
#pragma omp for schedule(static)
    for (int i = 0; i < n; i++) {
      int64_t at = first + i;
      make(&w->tables, l, (int)(at / T), (int)(at % T), row);
      narrow(type, d, row, to + (size_t)i * stride);
    }
  }
}

/* Reports written rows, and asks whether to continue. */
static kv_rc wrote(const job *w, int64_t rows, kv_err *e) {
  if (w->s->tick) w->s->tick(w->s->self, rows);
  if (!w->s->stop || !*w->s->stop) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "interrupted; nothing was written");
}

static kv_rc write_tensor(job *w, maker *make, int l, int heads, kv_err *e) {
  int64_t rows = (int64_t)heads * w->s->n_tokens;
  size_t stride = (size_t)w->s->like.d * kv_dtype_size(w->s->like.dtype);
  kv_rc rc = KV_OK;
  for (int64_t at = 0; !rc && at < rows; at += BATCH) {
    int n = rows - at < BATCH ? (int)(rows - at) : BATCH;
    make_rows(w, make, l, at, n, w->batch);
    rc = kv_st_writer_append(w->writer, (uint64_t)n * stride, w->batch, e);
    if (!rc) rc = wrote(w, n, e);
  }
  return rc;
}

/* One KV head with its query heads, alone: k, v, q and o of all tokens. */
typedef struct head {
  kv_shape shape;
  kv_layer_data data;
  unsigned char *q, *k, *v, *o;
  float *sinks;          /* [n_heads] of the layer, or NULL */
  kv_recompute *scratch; /* one a thread */
  int threads;
} head;

static void drop_head(head *x) {
  for (int i = 0; x->scratch && i < x->threads; i++) {
    kv_recompute_release(&x->scratch[i]);
  }
  free(x->scratch);
  free(x->sinks);
  free(x->q);
  free(x->k);
  free(x->v);
  free(x->o);
}

static kv_rc take_head(const kv_synth *s, head *x, kv_err *e) {
  int group = s->like.n_heads / s->like.n_kv_heads;
  size_t bytes =
      (size_t)s->n_tokens * (size_t)s->like.d * kv_dtype_size(s->like.dtype);
  *x = (head){.threads = kv_threads()};
  x->shape = (kv_shape){.n_layers = 1,
                        .n_heads = group,
                        .n_kv_heads = 1,
                        .d = s->like.d,
                        .d_v = s->like.d,
                        .n_tokens = s->n_tokens,
                        .prompt_len = s->prompt_len,
                        .dtype = s->like.dtype,
                        .scale = kv_div(1.0f, sqrtf((float)s->like.d)),
                        .softcap = s->softcap};
  x->q = kv_zalloc((size_t)group, bytes);
  x->o = kv_zalloc((size_t)group, bytes);
  x->k = kv_zalloc(1, bytes);
  x->v = kv_zalloc(1, bytes);
  x->scratch = calloc((size_t)x->threads, sizeof *x->scratch);
  if (!x->q || !x->o || !x->k || !x->v || !x->scratch) {
    return kv_no_memory(e, "a KV head's outputs", 2 * bytes);
  }
  x->data = (kv_layer_data){.q = x->q,
                            .k = x->k,
                            .v = x->v,
                            .q_dtype = s->like.dtype,
                            .n_rows = s->n_tokens};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < x->threads; i++) {
    rc = kv_recompute_init(&x->scratch[i], &x->shape, e);
  }
  return rc;
}

static void attend_block(const job *w, const head *x, int first) {
  kv_recompute *r = &x->scratch[omp_get_thread_num()];
  int n = x->shape.n_tokens, d = x->shape.d, group = x->shape.n_heads;
  int count = n - first < r->rows ? n - first : r->rows;
  size_t size = kv_dtype_size(x->shape.dtype);
  kv_recompute_block(r, w->kernel, &x->shape, &x->data, 0, first, count);
  for (int i = 0; i < count * group; i++) {
    size_t at = (size_t)(i % group) * (size_t)n + (size_t)(first + i / group);
    narrow(x->shape.dtype, d, r->out + (size_t)i * (size_t)d,
           x->o + at * (size_t)d * size);
  }
}

static void attend_head(const job *w, const head *x) {
  int n = x->shape.n_tokens, rows = x->scratch[0].rows;
#pragma omp parallel num_threads(x->threads)
  {
    kv_float_ground();
#pragma omp for schedule(dynamic)
    for (int first = 0; first < n; first += rows) attend_block(w, x, first);
  }
}

static void make_sinks(const job *w, int l, float *out) {
  for (int h = 0; h < w->s->like.n_heads; h++)
    out[h] = kv_synth_sink(&w->tables, l, h);
}

static kv_rc write_output(job *w, int l, kv_err *e) {
  const kv_geometry *g = &w->s->like;
  head x;
  kv_rc rc = take_head(w->s, &x, e);
  x.data.window = kv_geometry_window(g, l);
  if (!rc && g->sinks) {
    x.sinks = kv_zalloc((size_t)g->n_heads, sizeof *x.sinks);
    if (x.sinks)
      make_sinks(w, l, x.sinks);
    else
      rc = kv_no_memory(e, "sinks", (size_t)g->n_heads * sizeof *x.sinks);
  }
  int n = w->s->n_tokens, group = g->n_heads / g->n_kv_heads;
  uint64_t bytes = (uint64_t)n * (uint64_t)g->d * kv_dtype_size(g->dtype);
  for (int i = 0; !rc && i < g->n_kv_heads; i++) {
    int64_t first = (int64_t)i * n;
    make_rows(w, kv_synth_key, l, first, n, x.k);
    make_rows(w, value_of(w->s), l, first, n, x.v);
    for (int j = 0; j < group; j++) {
      make_rows(w, kv_synth_query, l, first * group + (int64_t)j * n, n,
                x.q + (size_t)j * (size_t)bytes);
    }
    x.data.sinks = x.sinks ? x.sinks + (size_t)i * (size_t)group : NULL;
    attend_head(w, &x);
    rc = kv_st_writer_append(w->writer, (uint64_t)group * bytes, x.o, e);
    if (!rc) rc = wrote(w, (int64_t)group * n, e);
  }
  drop_head(&x);
  return rc;
}

static kv_rc write_sinks(job *w, int l, kv_err *e) {
  size_t n = (size_t)w->s->like.n_heads;
  float *sink = kv_zalloc(n, sizeof *sink);
  if (!sink) return kv_no_memory(e, "sinks", n * sizeof *sink);
  make_sinks(w, l, sink);
  kv_rc rc = kv_st_writer_append(w->writer, n * sizeof *sink, sink, e);
  free(sink);
  return rc;
}

static kv_rc write_layer(job *w, int l, kv_err *e) {
  const kv_geometry *g = &w->s->like;
  kv_rc rc = write_tensor(w, kv_synth_query, l, g->n_heads, e);
  if (!rc) rc = write_tensor(w, kv_synth_key, l, g->n_kv_heads, e);
  if (!rc) rc = write_tensor(w, value_of(w->s), l, g->n_kv_heads, e);
  if (!rc && w->s->output) rc = write_output(w, l, e);
  return rc || !g->sinks ? rc : write_sinks(w, l, e);
}

static kv_rc write_all(job *w, kv_err *e) {
  const kv_synth *s = w->s;
  float frequency[KV_SYNTH_DIM / 2];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < recorded(s); i++) {
    rc = write_layer(w, layer_of(s, i), e);
  }
  for (int i = 0; !rc && i < kinds(&s->like); i++) {
    kv_geometry_frequencies(&s->like, i, frequency);
    rc = kv_st_writer_append(w->writer, (uint64_t)s->like.d * 2, frequency, e);
  }
  if (rc) return rc;
  return kv_st_writer_append(w->writer, (uint64_t)s->n_tokens * 4,
                             w->tables.token, e);
}

kv_rc kv_synth_write(const kv_synth *s, const kv_kernels *kernel,
                     const char *path, kv_err *e) {
  job w = {.s = s, .kernel = kernel};
  kv_rc rc = check(s, e);
  if (!rc) rc = kv_synth_tables_init(&w.tables, s, e);
  if (!rc) rc = kv_st_writer_open(path, 0, &w.writer, e);
  if (!rc) {
    w.batch = kv_zalloc(BATCH, (size_t)s->like.d * 4);
    if (!w.batch) rc = kv_no_memory(e, "rows", BATCH * (size_t)s->like.d * 4);
  }
  if (!rc) rc = declare(&w, e);
  if (!rc) rc = kv_synth_describe(w.s, &w.tables, w.writer, e);
  if (!rc) rc = write_all(&w, e);
  if (!rc) rc = kv_st_writer_finish(w.writer, NULL, e);
  free(w.batch);
  kv_st_writer_close(w.writer);
  kv_synth_tables_release(&w.tables);
  return rc;
}
