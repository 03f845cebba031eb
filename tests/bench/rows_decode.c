/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding: few queries, every chunk of 128 rows through logits, exponentials
 * and the weighted sum, against the bandwidth of reading the same rows.
 */
#include "ref/ground/arith.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/rowbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  TOKENS = 32768,
  LANES_OF_DECODE = 12, /* 16 MiB each */
  CHUNK = 128,
  CHUNKS = TOKENS / CHUNK
};

typedef struct decode {
  const kv_kernels *k;
  int group, lane;
  const float *q;
  const void **key, **value; /* all lanes */
  float *s, *part, *pack, *out;
} decode;

static void one_chunk(decode *x, const void **key, const void **value, int c,
                      float *m, float *l) {
  const int g = x->group;
  float *a = x->part + (size_t)c * (size_t)g * D;
  x->k->logits(g, CHUNK, D, x->q, D, key, KV_F16, 0.08838835f, x->s, CHUNK,
               x->pack);
  for (int h = 0; h < g; h++) {
    float *s = x->s + h * CHUNK;
    m[h * CHUNKS + c] = x->k->max(s, CHUNK);
    l[h * CHUNKS + c] = kv_unfix(x->k->exp_sum(s, m[h * CHUNKS + c], CHUNK, s));
  }
  memset(a, 0, (size_t)g * D * sizeof *a);
  x->k->weigh(g, CHUNK, D, x->s, CHUNK, value, KV_F16, a);
}

static void combine(decode *x, int h, float *m, const float *l) {
  const void *part[CHUNKS];
  float *out = x->out + h * D, sum = 0.0f, top = x->k->max(m, CHUNKS);
  for (int c = 0; c < CHUNKS; c++)
    part[c] = x->part + (size_t)(c * x->group + h) * D;
  x->k->exp_sum(m, top, CHUNKS, m);
  for (int c = 0; c < CHUNKS; c++) sum = kv_fma(m[c], l[c], sum);
  memset(out, 0, D * sizeof *out);
  x->k->weigh(1, CHUNKS, D, m, CHUNKS, part, KV_F32, out);
  for (int i = 0; i < D; i++) out[i] = out[i] / sum;
}

static void run_decode(void *v) {
  decode *x = v;
  float m[4 * CHUNKS], l[4 * CHUNKS];
  const size_t base = (size_t)x->lane * TOKENS;
  for (int c = 0; c < CHUNKS; c++) {
    size_t at = base + (size_t)c * CHUNK;
    one_chunk(x, x->key + at, x->value + at, c, m, l);
  }
  for (int h = 0; h < x->group; h++)
    combine(x, h, m + h * CHUNKS, l + h * CHUNKS);
  x->lane = (x->lane + 1) % LANES_OF_DECODE;
}

static void all_lanes(void *v) {
  for (int i = 0; i < LANES_OF_DECODE; i++) run_decode(v);
}

typedef struct half_decode {
  decode *x;
  int values; /* weigh, else logits */
} half_decode;

/* One half of the work over all lanes, to see which side is slow. */
static void run_half(void *v) {
  half_decode *half = v;
  decode *x = half->x;
  for (size_t at = 0; at < (size_t)LANES_OF_DECODE * TOKENS; at += CHUNK) {
    if (half->values) {
      x->k->weigh(x->group, CHUNK, D, x->s, CHUNK, x->value + at, KV_F16,
                  x->part);
    } else {
      x->k->logits(x->group, CHUNK, D, x->q, D, x->key + at, KV_F16, 1.0f, x->s,
                   CHUNK, x->pack);
    }
  }
}

static int decode_agrees(decode *x) {
  float want[4 * D];
  x->k = portable;
  x->lane = 0;
  run_decode(x);
  memcpy(want, x->out, sizeof want);
  x->k = kernels;
  x->lane = 0;
  run_decode(x);
  x->lane = 0;
  return memcmp(want, x->out, (size_t)x->group * D * sizeof *want) == 0;
}

static int bench_decode(decode *x, double gbs) {
  const double bytes = (double)LANES_OF_DECODE * TOKENS * D * 2 * 1e-9;
  char what[64];
  if (!decode_agrees(x)) return 0;
  snprintf(what, sizeof what, "chunk by chunk, fp16, group of %d", x->group);
  bench_report(what, 2 * bytes / best_of(all_lanes, x), "GB/s", gbs, 0);
  half_decode k = {x, 0}, v = {x, 1};
  bench_report("  its logits alone", bytes / best_of(run_half, &k), "GB/s", gbs,
               0);
  bench_report("  its weighing alone", bytes / best_of(run_half, &v), "GB/s",
               gbs, 0);
  return 1;
}

int bench_decodes(void) {
  const size_t rows = (size_t)LANES_OF_DECODE * TOKENS, half = rows * D;
  uint16_t *kv = bench_take(2 * half, 2);
  float *q = bench_take(4 * D, 4);
  bench_fill(KV_F16, 2 * half, kv);
  bench_fill(KV_F32, 4 * D, q);
  decode x = {kernels,
              1,
              0,
              q,
              bench_rows(kv, rows, 2 * D),
              bench_rows(kv + half, rows, 2 * D),
              bench_take(4 * CHUNK, 4),
              bench_take((size_t)4 * CHUNKS * D, 4),
              bench_take((size_t)KV_PACK * D, 4),
              bench_take(4 * D, 4)};
  double gbs = read_bandwidth(kernels->name, kv, 4 * half);
  bench_report("read bandwidth", gbs, "GB/s", 0, 0);
  int same = bench_decode(&x, gbs);
  x.group = 4;
  same = same && bench_decode(&x, gbs);
  free(kv), free(q), free(x.key), free(x.value);
  free(x.s), free(x.part), free(x.pack), free(x.out);
  return same;
}
