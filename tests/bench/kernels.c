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
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/ground/err.h"
#include "tests/bench/ceiling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#  include <immintrin.h>
#endif

enum {
  D = 128,
  TOKENS = 32768,
  LANES_OF_DECODE = 12, /* 16 MiB each */
  CHUNK = 128,
  CHUNKS = TOKENS / CHUNK
};

static const kv_kernels *kernels, *portable;
static int csv;

static void *take(size_t count, size_t size) {
  void *p = kv_zalloc(count, size);
  if (!p) {
    fputs("kernels: not enough memory: free about 1 GiB\n", stderr);
    exit(KV_RESOURCE);
  }
  return p;
}

static void report(const char *what, double value, const char *unit,
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

static void fill(kv_dtype type, size_t n, void *out) {
  float *f = out;
  uint16_t *h = out;
  for (size_t i = 0; i < n; i++) {
    if (type == KV_F32) f[i] = draw();
    if (type == KV_F16) h[i] = kv_to_f16(draw());
    if (type == KV_BF16) h[i] = kv_to_bf16(draw());
  }
}

static const void **rows_of(const void *base, size_t n, size_t bytes) {
  const void **row = take(n, sizeof *row);
  for (size_t i = 0; i < n; i++) row[i] = (const char *)base + i * bytes;
  return row;
}

/* --- prefill: many queries ----------------------------------------------- */

/* A tile that stays in the second-level cache, and the engine's own at 8,448
 * tokens and groups of 4, which is a little more than one holds. */
static const struct shape {
  int queries, keys;
} inside = {128, 2048}, engine = {60, 8448};

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

static void run_evidence(void *v) {
  prefill *p = v;
  run_logits(v);
  for (int i = 0; i < p->queries; i++) {
    float *s = p->s + (size_t)i * p->lds, m = p->k->max(s, p->keys);
    float mass = kv_unfix(p->k->exp_sum(s, m, p->keys, s));
    p->k->scale(1.0f / mass, p->keys, s);
    p->k->fix_add(s, p->keys, p->column);
  }
}

static int prefill_agrees(prefill p) {
  size_t n = (size_t)p.queries * p.lds, columns = (size_t)p.keys;
  prefill other = p;
  other.k = portable;
  other.s = take(n, sizeof *p.s);
  other.column = take(columns, sizeof *p.column);
  memset(p.column, 0, columns * sizeof *p.column);
  run_evidence(&p);
  run_evidence(&other);
  int same = memcmp(p.s, other.s, n * sizeof *p.s) == 0 &&
             memcmp(p.column, other.column, columns * sizeof *p.column) == 0;
  free(other.s);
  free(other.column);
  return same;
}

static int bench_prefill(double peak, kv_dtype type, const char *name,
                         struct shape shape, int logit_goal,
                         int evidence_goal) {
  size_t m = (size_t)shape.queries, n = (size_t)shape.keys, lds = n + 16;
  void *keys = take(n * D, 4);
  float *q = take(m * D, 4);
  char what[64];
  fill(type, n * D, keys);
  fill(KV_F32, m * D, q);
  prefill p = {kernels,
               shape.queries,
               shape.keys,
               lds,
               q,
               rows_of(keys, n, D * kv_dtype_size(type)),
               type,
               take(m * lds, 4),
               take((size_t)KV_PACK * D, 4),
               take(n, 8)};
  int same = prefill_agrees(p);
  if (same) {
    double flop = 2.0 * D * (double)m * (double)n * 1e-9;
    snprintf(what, sizeof what, "logits %s, %zu queries x %zu keys", name, m,
             n);
    report(what, flop / best_of(run_logits, &p), "GFLOP/s", peak, logit_goal);
    report("  with evidence", flop / best_of(run_evidence, &p), "GFLOP/s", peak,
           evidence_goal);
  }
  free(keys), free(q), free(p.key), free(p.s), free(p.pack), free(p.column);
  return same;
}

static int bench_prefills(double peak) {
  return bench_prefill(peak, KV_F32, "fp32", inside, 75, 50) &&
         bench_prefill(peak, KV_F16, "fp16", inside, 75, 50) &&
         bench_prefill(peak, KV_F16, "fp16", engine, 0, 0);
}

/* --- decode: few queries, every chunk through logits, exp, weigh ---------- */

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
  report(what, 2 * bytes / best_of(all_lanes, x), "GB/s", gbs, 0);
  half_decode k = {x, 0}, v = {x, 1};
  report("  its logits alone", bytes / best_of(run_half, &k), "GB/s", gbs, 0);
  report("  its weighing alone", bytes / best_of(run_half, &v), "GB/s", gbs, 0);
  return 1;
}

static int bench_decodes(void) {
  const size_t rows = (size_t)LANES_OF_DECODE * TOKENS, half = rows * D;
  uint16_t *kv = take(2 * half, 2);
  float *q = take(4 * D, 4);
  fill(KV_F16, 2 * half, kv);
  fill(KV_F32, 4 * D, q);
  decode x = {kernels,
              1,
              0,
              q,
              rows_of(kv, rows, 2 * D),
              rows_of(kv + half, rows, 2 * D),
              take(4 * CHUNK, 4),
              take((size_t)4 * CHUNKS * D, 4),
              take((size_t)KV_PACK * D, 4),
              take(4 * D, 4)};
  double gbs = read_bandwidth(kernels->name, kv, 4 * half);
  report("read bandwidth", gbs, "GB/s", 0, 0);
  int same = bench_decode(&x, gbs);
  x.group = 4;
  same = same && bench_decode(&x, gbs);
  free(kv), free(q), free(x.key), free(x.value);
  free(x.s), free(x.part), free(x.pack), free(x.out);
  return same;
}

/* --- coded rows: KIVI's groups of 32, decoded to fp32 -----------------------
 */

enum { GROUP = 32, DECODED = 1 << 16 };

typedef struct coded {
  const kv_format *format;
  kv_minmax is;
  const kv_kernels *k;
  char block[GROUP * D];
  float out[GROUP][D];
} coded;

static void run_codes(void *v) {
  coded *x = v;
  int members = x->format->members(&x->is);
  for (int i = 0; i < DECODED; i++)
    x->format->decode(x->k, &x->is, members, D, x->block, i % members,
                      x->out[i % members]);
}

/* Of numbers decoded, beside the same by the portable set. */
static int bench_code(const kv_format *format, int fp16_ops) {
  coded x = {format, {2, GROUP, fp16_ops}, portable, {0}, {{0}}};
  float rows[GROUP][D], want[GROUP][D];
  const float *row[GROUP];
  char what[64];
  for (int m = 0; m < GROUP; m++) row[m] = rows[m];
  fill(KV_F32, sizeof rows / sizeof **rows, rows);
  if (!format->encode(&x.is, format->members(&x.is), D, row, x.block)) return 0;
  double plain = best_of(run_codes, &x);
  memcpy(want, x.out, sizeof want);
  x.k = kernels;
  double time = best_of(run_codes, &x), all = (double)DECODED * D * 1e-9;
  snprintf(what, sizeof what, "codes of 2 bits, %s%s", format->name,
           fp16_ops ? ", fp16 arithmetic" : "");
  report(what, all / time, "Gnum/s", 0, 0);
  report("  by the portable set", all / plain, "Gnum/s", 0, 0);
  return memcmp(want, x.out, sizeof want) == 0;
}

static int bench_codes(void) {
  return bench_code(&kv_format_channel, 0) &&
         bench_code(&kv_format_channel, 1) && bench_code(&kv_format_token, 0) &&
         bench_code(&kv_format_token, 1);
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
  if (peak > 0) report("FMA peak", peak, "GFLOP/s", 0, 0);
  int same = bench_prefills(peak) && bench_decodes() && bench_codes();
  if (!same) fputs("kernels: the set differs from portable\n", stderr);
  return same ? 0 : KV_INTERNAL;
}
