/* SPDX-License-Identifier: Apache-2.0
 *
 * The prompt: logits of many queries, alone and with the observation made of
 * them (largest, exponentials, probabilities, sums of columns in fixed point).
 */
#include "ref/ground/arith.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/rowbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tile that stays in the second-level cache, and the engine's own at 8,448
 * tokens and groups of 4, which is a little more than one holds. */
static const struct shape {
  int queries, keys;
} inside = {128, 2048}, engine = {60, 8448};

enum { HEADS = 4, MOST_QUERIES = 128 }; /* of a group, of a shape */

typedef struct prefill {
  const kv_kernels *k;
  int queries, keys;
  size_t lds; /* rows of scores on different cache sets */
  const float *q;
  const void **key;
  kv_dtype type;
  float *s, *pack;
  int64_t *column;
} prefill;

static void run_logits(void *v) {
  prefill *p = v;
  p->k->logits(p->queries, p->keys, D, p->q, D, p->key, p->type, 0.08838835f,
               p->s, p->lds, p->pack);
}

/* As ref/backend/observation.c makes it: each row's exponentials while it is in
 * the cache, then the probabilities of all rows of a head and their sums. */
static void run_observation(void *v) {
  prefill *p = v;
  float r[MOST_QUERIES];
  run_logits(v);
  for (int i = 0; i < p->queries; i++) {
    bool finite;
    float *s = p->s + (size_t)i * p->lds;
    float top = p->k->max_finite(s, p->keys, &finite);
    r[i] = 1.0f / kv_unfix(p->k->exp_sum(s, top, p->keys, s));
  }
  for (int h = 0; h < HEADS; h++) {
    int rows = p->queries / HEADS, from = h * rows;
    p->k->fix_rows(rows, p->keys, p->s + (size_t)from * p->lds, p->lds,
                   r + from, p->column + (size_t)h * (size_t)p->keys);
  }
}

static int prefill_agrees(prefill p) {
  size_t n = (size_t)p.queries * p.lds, columns = HEADS * (size_t)p.keys;
  prefill other = p;
  other.k = portable;
  other.s = bench_take(n, sizeof *p.s);
  other.column = bench_take(columns, sizeof *p.column);
  memset(p.column, 0, columns * sizeof *p.column);
  run_observation(&p);
  run_observation(&other);
  int same = memcmp(p.s, other.s, n * sizeof *p.s) == 0 &&
             memcmp(p.column, other.column, columns * sizeof *p.column) == 0;
  free(other.s);
  free(other.column);
  return same;
}

static int bench_prefill(double peak, kv_dtype type, const char *name,
                         struct shape shape, int logit_goal,
                         int observation_goal) {
  size_t m = (size_t)shape.queries, n = (size_t)shape.keys, lds = n + 16;
  void *keys = bench_take(n * D, 4);
  float *q = bench_take(m * D, 4);
  char what[64];
  bench_fill(type, n * D, keys);
  bench_fill(KV_F32, m * D, q);
  prefill p = {kernels,
               shape.queries,
               shape.keys,
               lds,
               q,
               bench_rows(keys, n, D * kv_dtype_size(type)),
               type,
               bench_take(m * lds, 4),
               bench_take((size_t)KV_PACK * D, 4),
               bench_take(HEADS * n, 8)};
  int same = prefill_agrees(p);
  if (same) {
    double flop = 2.0 * D * (double)m * (double)n * 1e-9;
    snprintf(what, sizeof what, "logits %s, %zu queries x %zu keys", name, m,
             n);
    bench_report(what, flop / best_of(run_logits, &p), "GFLOP/s", peak,
                 logit_goal);
    bench_report("  with observation", flop / best_of(run_observation, &p),
                 "GFLOP/s", peak, observation_goal);
  }
  free(keys), free(q), free(p.key), free(p.s), free(p.pack), free(p.column);
  return same;
}

int bench_prompts(double peak) {
  return bench_prefill(peak, KV_F32, "fp32", inside, 75, 50) &&
         bench_prefill(peak, KV_F16, "fp16", inside, 75, 50) &&
         bench_prefill(peak, KV_F16, "fp16", engine, 0, 0);
}
