/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the row kernels are, on one thread, against ceilings measured in
 * the same run: the FMA peak of the set's registers and the bandwidth of
 * reading memory. What is timed is first compared, bit for bit, with the
 * portable set. Times are the best of several; data are several times the
 * second-level cache. A busy machine gives no verdict.
 *
 * usage: kernels [--csv] [SET]       goals are printed, not enforced
 */
#include "ref/kernels/kernels.h"
#include "ref/formats/named.h"
#include "ref/ground/arith.h"
#include "tests/bench/ceiling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 128 }; /* head dimension of everything that is timed */

/* The set that is timed, and the one that it must agree with. */
static const kv_kernels *kernels, *portable;
static int csv;

static void *bench_take(size_t count, size_t size) {
  void *p = kv_zalloc(count, size);
  if (!p) {
    fputs("kernels: not enough memory: free about 1 GiB\n", stderr);
    exit(KV_RESOURCE);
  }
  return p;
}

static void bench_report(const char *what, double value, const char *unit,
                         double ceiling, double goal) {
  double percent = ceiling > 0 ? 100 * value / ceiling : 0;
  if (csv) {
    printf("%s,\"%s\",%.4g,%s,%.4g,%.4g\n", kernels->name, what, value, unit,
           percent, goal);
    return;
  }
  printf("%-44s %9.2f %-8s", what, value, unit);
  if (ceiling > 0) printf(" %5.1f %%", percent);
  if (goal > 0)
    printf("  (goal %.0f %%%s)", goal, percent < goal ? ", missed" : "");
  putchar('\n');
}

/* --- data ---------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;
static float draw(void) { /* -1 to 1, full mantissa */
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (float)((int64_t)seed >> 8) * 0x1p-55f;
}

static void bench_fill(kv_dtype type, size_t n, void *out) {
  float *f = out;
  uint16_t *h = out;
  for (size_t i = 0; i < n; i++) {
    if (type == KV_F32) f[i] = draw();
    if (type == KV_F16) h[i] = kv_to_f16(draw());
    if (type == KV_BF16) h[i] = kv_to_bf16(draw());
  }
}

static const void **bench_rows(const void *base, size_t n, size_t bytes) {
  const void **row = bench_take(n, sizeof *row);
  for (size_t i = 0; i < n; i++) row[i] = (const char *)base + i * bytes;
  return row;
}

/* --- the prompt ----------------------------------------------------------- */

/* The prompt: logits of many queries, alone and with the observation made of
 * them (largest, exponentials, probabilities, sums of columns in fixed point).
 */

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

static int bench_prompts(double peak) {
  return bench_prefill(peak, KV_F32, "fp32", inside, 75, 50) &&
         bench_prefill(peak, KV_F16, "fp16", inside, 75, 50) &&
         bench_prefill(peak, KV_F16, "fp16", engine, 0, 0);
}

/* --- weighing for many heads ---------------------------------------------- */

/* The weighted sum for many heads over few rows: what tiles of decode steps ask
 * for. Queries of several steps go through the same 32 value rows, decoded or
 * widened to fp32, so rows and sums stay in the caches and arithmetic binds. */

enum {
  ROWS = 32, /* of a call */
  LDP = 128, /* floats a row of weights */
  CALLS = 16 /* under one look at the clock */
};

typedef struct weights {
  const kv_kernels *k;
  int heads;
  const float *p;
  const void **value;
  float *a;
} weights;

static void run_weigh(void *v) {
  weights *x = v;
  for (int i = 0; i < CALLS; i++)
    x->k->weigh(x->heads, ROWS, D, x->p, LDP, x->value, KV_F32, x->a);
}

static int weigh_agrees(weights x) {
  size_t n = (size_t)x.heads * D;
  weights other = x;
  other.k = portable;
  other.a = bench_take(n, sizeof *x.a);
  run_weigh(&x);
  run_weigh(&other);
  int same = memcmp(x.a, other.a, n * sizeof *x.a) == 0;
  free(other.a);
  return same;
}

/* Sums grow from call to call, linearly: they stay finite and normal. */
static int bench_weigh(double peak, int heads) {
  float *rows = bench_take(ROWS * D, sizeof *rows);
  char what[64];
  float *p = bench_take((size_t)heads * LDP, sizeof *p);
  bench_fill(KV_F32, ROWS * D, rows);
  bench_fill(KV_F32, (size_t)heads * LDP, p);
  weights x = {kernels, heads, p, bench_rows(rows, ROWS, D * sizeof *rows),
               bench_take((size_t)heads * D, 4)};
  int same = weigh_agrees(x);
  if (same) {
    double flop = 2.0 * D * ROWS * heads * CALLS * 1e-9;
    snprintf(what, sizeof what, "weigh fp32, %d heads x %d rows", heads, ROWS);
    bench_report(what, flop / best_of(run_weigh, &x), "GFLOP/s", peak, 70);
  }
  free(rows), free(p), free(x.value), free(x.a);
  return same;
}

static int bench_weighs(double peak) {
  return bench_weigh(peak, 64) && bench_weigh(peak, 128) &&
         bench_weigh(peak, 256);
}

/* --- decoding ------------------------------------------------------------- */

/* Decoding: few queries, every chunk of 128 rows through logits, exponentials
 * and the weighted sum, against the bandwidth of reading the same rows. */

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

static int bench_decodes(void) {
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

/* --- decoding from codes -------------------------------------------------- */

/* The same over rows of formats, lane after lane, of the slower of reading
 * their bytes and of half the FMA peak: an element takes one FMA to be made and
 * one for each query, and a query's is counted. */

typedef struct coded {
  decode *x;
  const kv_named_format *format;
  kv_block_rows rows;
} coded;

static void run_coded(void *v) {
  const coded *c = v;
  decode *x = c->x;
  const kv_kernels *k = x->k;
  const int g = x->group, bits = c->format->bits;
  const kv_block_rows *block = &c->rows;
  for (int at = 0; at < TOKENS; at += CHUNK) {
    const size_t row = (size_t)x->lane * TOKENS + (size_t)at;
    const void *const *key = x->key + row, *const *value = x->value + row;
    if (bits)
      k->code_logits(g, CHUNK, D, x->q, D, key, bits, D, 0.0883f, x->s, CHUNK,
                     x->pack);
    else
      k->block_logits(g, CHUNK, D, x->q, D, key, block, 0.0883f, x->s, CHUNK,
                      x->pack);
    for (int h = 0; h < g; h++) {
      float *s = x->s + h * CHUNK;
      k->exp_sum(s, k->max(s, CHUNK), CHUNK, s);
    }
    if (bits)
      k->code_weigh(g, CHUNK, D, x->s, CHUNK, value, bits, D, x->part);
    else
      k->block_weigh(g, CHUNK, D, x->s, CHUNK, value, block, x->part);
  }
  x->lane = (x->lane + 1) % LANES_OF_DECODE;
}

/* Rows of one row's bytes: which ones they are does not change the time. */
static void bench_coded(const char *name, double peak) {
  const kv_named_format *f = kv_named_format_at(kv_named_format_find(name));
  const kv_minmax token = {.bits = f->bits, .group = D, .rule = f->rule};
  const void *set = f->bits ? (const void *)&token : &f->block;
  const kv_coded_size size = f->format->size(set, 1, D);
  const size_t each = size.codes + size.metadata;
  const size_t rows = (size_t)LANES_OF_DECODE * TOKENS;
  char *kv = bench_take(2 * rows, each), what[64];
  float *q = bench_take(4 * D, 4);
  const float *one = q;
  bench_fill(KV_F32, 4 * D, q);
  f->format->encode(set, 1, D, &one, kv);
  for (size_t i = 1; i < 2 * rows; i++) memcpy(kv + i * each, kv, each);
  decode x = {kernels,
              1,
              0,
              q,
              bench_rows(kv, rows, each),
              bench_rows(kv + rows * each, rows, each),
              bench_take(4 * CHUNK, 4),
              bench_take(4 * D, 4),
              bench_take((size_t)KV_PACK * D, 4),
              NULL};
  coded c = {&x, f, {0}};
  if (!f->bits) kv_block_in_place(&f->block, D, &c.rows);
  const double moved = 2e-9 * TOKENS * (double)each;
  const double gbs =
      read_bandwidth(kernels->name, kv, 2 * rows * each / 256 * 256);
  for (; x.group <= 4; x.group += 3) {
    double flop = 4e-9 * D * TOKENS * x.group, time = best_of(run_coded, &c);
    int reads = moved / gbs > 2 * flop / peak;
    snprintf(what, sizeof what, "%s, group of %d: of %s", name, x.group,
             reads ? "reading" : "half the FMA peak");
    bench_report(what, (reads ? moved : flop) / time,
                 reads ? "GB/s" : "GFLOP/s", reads ? gbs : peak / 2,
                 f->bits ? 0 : 50);
  }
  free(kv), free(q), free(x.key), free(x.value);
  free(x.s), free(x.part), free(x.pack);
}

static void bench_codes(double peak) {
  static const char *const name[] = {"int8", "int4", "q8_0", "q4_0", "nvfp4"};
  for (int i = 0; i < 5; i++) bench_coded(name[i], peak);
}

/* --- similar keys --------------------------------------------------------- */

/* Cosines of every two keys of a lane, as R-KV sums them: of the FMA peak, the
 * rounding, adding and comparing included. */

enum { KEYS = 1024 };

typedef struct alike {
  const kv_kernels *k;
  const float *unit;
  float *pack;
  int64_t *sum;
  int32_t *last;
} alike;

static void run_similar(void *v) {
  alike *a = v;
  memset(a->sum, 0, KEYS * sizeof *a->sum);
  memset(a->last, 0xff, KEYS * sizeof *a->last);
  for (int j = 0; j < KEYS; j += KV_PACK)
    a->k->similar(j, KV_PACK, D, a->unit, 0.01f, a->sum, a->last, a->pack);
}

static int bench_similar(double peak) {
  float *unit = bench_take((size_t)KEYS * D, sizeof *unit);
  alike a = {portable, unit, bench_take((size_t)KV_PACK * D, sizeof *unit),
             bench_take(KEYS, sizeof *a.sum), bench_take(KEYS, sizeof *a.last)};
  alike b = a;
  b.k = kernels;
  b.sum = bench_take(KEYS, sizeof *b.sum);
  b.last = bench_take(KEYS, sizeof *b.last);
  bench_fill(KV_F32, (size_t)KEYS * D, unit);
  for (int i = 0; i < KEYS * D; i++) unit[i] *= 0.15f; /* about as long as 1 */
  run_similar(&a);
  double time = best_of(run_similar, &b);
  double work = (double)KEYS * (KEYS + KV_PACK) * D * 1e-9;
  bench_report("cosines of 1024 keys, each pair once", work / time, "GFLOP/s",
               peak, 60);
  int same = memcmp(a.sum, b.sum, KEYS * sizeof *a.sum) == 0 &&
             memcmp(a.last, b.last, KEYS * sizeof *a.last) == 0;
  free(unit);
  free(a.pack);
  free(a.sum);
  free(a.last);
  free(b.sum);
  free(b.last);
  return same;
}

int main(int argc, char **argv) {
  kv_err e;
  char note[128];
  kernels = kv_kernels_best();
  kv_float_ground();
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--csv") == 0) {
      csv = 1;
    } else if (kv_kernels_named(argv[i], &kernels, note, &e) != KV_OK) {
      fprintf(stderr, "kernels: %s\n", e.text);
      return KV_USAGE;
    } else if (note[0]) {
      fprintf(stderr, "kernels: %s\n", note);
    }
  }
  kv_kernels_named("portable", &portable, NULL, NULL);
  if (csv) puts("set,what,value,unit,percent,goal");
  if (!csv) printf("kernel set %s, one thread\n", kernels->name);
  /* The clock wanders on a shared machine: the best of many looks. */
  double peak = 0;
  for (int i = 0; i < 8; i++) {
    double now = fma_peak(kernels->name);
    if (now > peak) peak = now;
  }
  if (peak > 0) bench_report("FMA peak", peak, "GFLOP/s", 0, 0);
  bench_codes(peak);
  int same = bench_prompts(peak) && bench_weighs(peak) && bench_decodes() &&
             bench_similar(peak);
  if (!same) fputs("kernels: the set differs from portable\n", stderr);
  return same ? 0 : KV_INTERNAL;
}
