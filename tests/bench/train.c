/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of `kvreplay train deltakv` beside its matrix products alone: the same
 * shapes, strides and library, one thread, processor time. What is above them
 * is reading and turning back K and V, ranking references, activations, the
 * loss and AdamW.
 */
#include "tests/bench/bench.h"

#include "sim/train/product.h"
#include "sim/train/train.h"
#include "traces/trace/check.h"
#include "traces/trace/synth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A model: KV heads of dimension d, and a compressor of its size. */
typedef struct size {
  const char *what;
  int kv_heads, d, hidden, latent, layers;
} size;

enum { TOKENS = 2048, PIECE = 512, STRIDE = 10, STEPS = 9, PRODUCTS = 9 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make(const bench *b, const size *s, char path[300]) {
  kv_err e = {0};
  kv_synth ask = {.like = *kv_geometry_find("tiny"),
                  .n_tokens = TOKENS,
                  .prompt_len = TOKENS / 2,
                  .seed = 1};
  ask.like.n_layers = s->layers;
  ask.like.n_heads = ask.like.n_kv_heads = s->kv_heads;
  ask.like.d = s->d;
  snprintf(path, 300, "%s/train.safetensors", b->folder);
  if (kv_synth_write(&ask, kv_kernels_best(), path, &e))
    bench_fail("%s", e.text);
}

/* Seconds of a step: the median. */
static double step(const bench *b, const size *s, const char *path) {
  char spec[80], output[300];
  const char *paths[1] = {path};
  double second[STEPS];
  kv_train *x;
  kv_err e = {0};
  snprintf(spec, sizeof spec, "deltakv:hidden=%d:latent=%d", s->hidden,
           s->latent);
  snprintf(output, sizeof output, "%s/weights.safetensors", b->folder);
  kv_train_ask ask = {.traces = 1,
                      .path = paths,
                      .output = output,
                      .most = PIECE,
                      .threads = 1,
                      .kernels = kv_kernels_best()};
  if (kv_trainer_parse(spec, &ask.of, &ask.params, &e) ||
      kv_train_open(&ask, &x, &e))
    bench_fail("%s", e.text);
  for (int i = -2; i < STEPS; i++) {
    double from = now();
    if (kv_train_step(x, &e)) bench_fail("%s", e.text);
    if (i >= 0) second[i] = now() - from;
  }
  unlink(x->checkpoint);
  kv_train_close(x);
  free(ask.params);
  return bench_median(STEPS, second);
}

/* c[m][n] of a and b; turned: read by columns. */
typedef struct shape {
  long m, n, k;
  bool a_turned, b_turned;
} shape;

/* Those of one layer, forward, backward, and with half of the references. */
static void shapes(const size *s, shape out[PRODUCTS]) {
  long n = PIECE, w = 2L * s->kv_heads * s->d, h = s->hidden, z = s->latent;
  const shape all[PRODUCTS] = {{2 * n, 2 * h, w, false, true},
                               {2 * n, z, h, false, true},
                               {n, w, z, false, true},
                               {w, z, n, true, false},
                               {n, z, w, false, false},
                               {z, h, 2 * n, true, false},
                               {2 * n, h, z, false, false},
                               {2 * h, w, 2 * n, true, false},
                               {n, TOKENS / 2 / STRIDE, w, false, true}};
  memcpy(out, all, sizeof all);
}

static double multiply(const shape *all, const float *a, const float *b,
                       float *c) {
  double from = now();
  for (int i = 0; i < PRODUCTS; i++) {
    const shape *s = &all[i];
    kv_product(s->m, s->n, s->k,
               s->a_turned ? kv_turned(a, s->m) : kv_rows_of(a, s->k),
               s->b_turned ? kv_turned(b, s->k) : kv_rows_of(b, s->n), false,
               c);
  }
  return now() - from;
}

/* Seconds of the products of a step: the median; and how many GFLOP. */
static double products(const size *s, double *work) {
  shape all[PRODUCTS];
  long most = 0;
  double second[STEPS];
  shapes(s, all);
  *work = 0;
  for (int i = 0; i < PRODUCTS; i++) {
    const shape *x = &all[i];
    long area[3] = {x->m * x->n, x->n * x->k, x->m * x->k};
    for (int j = 0; j < 3; j++) most = area[j] > most ? area[j] : most;
    *work += 2e-9 * (double)x->m * (double)x->n * (double)x->k * s->layers;
  }
  float *of = kv_zalloc(3 * (size_t)most, sizeof *of);
  if (!of) bench_fail("no memory");
  for (long i = 0; i < 2 * most; i++) of[i] = (float)(i % 13 - 6);
  for (int i = -2; i < STEPS; i++) {
    double t = multiply(all, of, of + most, of + 2 * most);
    if (i >= 0) second[i] = t * s->layers;
  }
  free(of);
  return bench_median(STEPS, second);
}

void theme_train(const bench *b) {
  static const size sizes[] = {
      {"the bundled model", 2, 64, 256, 64, 6},
      {"a layer of Llama-3.1-8B", 8, 128, 3072, 512, 1}};
  char text[80], path[300];
  kv_second_setup();
  snprintf(text, sizeof text, "products alone, %s", kv_product_by());
  bench_theme(b, "a step of train deltakv, 512 tokens, one thread", text);
  for (int i = 0; i < (b->small ? 1 : 2); i++) {
    double work, alone = products(&sizes[i], &work);
    make(b, &sizes[i], path);
    bench_line(b, (line){.what = sizes[i].what,
                         .unit = "GFLOP/s",
                         .value = work / step(b, &sizes[i], path),
                         .peer = work / alone,
                         .low = 0.5});
    unlink(path);
  }
}
