/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode attention over rows of codes as they are stored, as the engine does
 * it: d = 128, a scale and a minimum a row, 32,768 tokens a lane, groups of 1
 * and 4, one thread, 704 MiB. The ceiling is the slower of plainly reading the
 * same bytes and of half the FMA peak: each element takes one FMA to be made
 * and one for each head, and a head's is what is counted. Beside each stands
 * the same step over fp16 rows, by the best set; KVREPLAY_ISA names the other.
 */
#include "tests/bench/bench.h"

#include "ref/backend/attend.h"
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/ground/large.h"
#include "ref/kernels/kernels.h"
#include "tests/bench/ceiling.h"
#include "tests/support/draw.h"
#include "traces/option/kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  D = 128,
  GROUP = 4,
  TOKENS = 32768,
  LDS = TOKENS + 16,
  RANGE = 4 /* bytes of a row's scale and minimum */
};

/* Of each pair of formats as many lanes as fill this, so that each is read from
 * memory. */
#define ALL_BYTES ((size_t)704 << 20)

/* Rows of all lanes on one side. */
typedef struct code_side {
  int bits;
  size_t size; /* bytes a row */
  char *rows;  /* [lanes][TOKENS][size] */
} code_side;

typedef struct work {
  const kv_kernels *kernels;
  int group, lanes, lane;
  code_side k, v;
  float *q, *s; /* [GROUP][D], [GROUP][LDS] */
  float out[GROUP * D], lse[GROUP], *decoded;
  kv_attend_scratch x;
} work;

static int name_rows(const code_side *of, int lane, int first, int count,
                     int most, kv_attend_scratch *x) {
  int n = count < most ? count : most;
  const char *from =
      of->rows + ((size_t)lane * TOKENS + (size_t)first) * of->size;
  for (int i = 0; i < n; i++) x->row[i] = from + (size_t)i * of->size;
  return n;
}

static int value_rows(void *ctx, int first, int count, kv_attend_scratch *x,
                      kv_row_kind *kind) {
  const work *w = ctx;
  *kind = (kv_row_kind){.bits = w->v.bits, .run = D};
  return name_rows(&w->v, w->lane, first, count, KV_CHUNK, x);
}

static void one_lane(work *w) {
  for (int at = 0, n; at < TOKENS; at += n) {
    n = name_rows(&w->k, w->lane, at, TOKENS - at, KV_KEYS, &w->x);
    w->kernels->code_logits(w->group, n, D, w->q, D, w->x.row, w->k.bits, D,
                            0.08838835f, w->s + at, LDS, w->x.pack);
  }
  kv_attend_rows(w->kernels, w->group, TOKENS, D, w->s, LDS, value_rows, w,
                 &w->x, w->out, w->lse);
}

static void all_lanes(void *what) {
  work *w = what;
  for (w->lane = 0; w->lane < w->lanes; w->lane++) one_lane(w);
}

/* The same lane with its rows decoded first. */
static void read_block(const work *w, const code_side *of, const void *block,
                       float *out) {
  const char *at = block;
  w->kernels->minmax(of->bits, D, D, at + RANGE, at, at + RANGE / 2, out);
}

static int decoded_rows(void *ctx, int first, int count, kv_attend_scratch *x,
                        kv_row_kind *kind) {
  work *w = ctx;
  int n = name_rows(&w->v, w->lane, first, count, KV_CHUNK, x);
  *kind = (kv_row_kind){.type = KV_F32};
  for (int i = 0; i < n; i++) {
    read_block(w, &w->v, x->row[i], w->decoded + i * D);
    x->row[i] = w->decoded + i * D;
  }
  return n;
}

static void check(work *w) {
  float want[GROUP * D];
  w->lane = w->lanes - 1;
  for (int at = 0, n; at < TOKENS; at += n) {
    n = name_rows(&w->k, w->lane, at, TOKENS - at, KV_CHUNK, &w->x);
    for (int i = 0; i < n; i++) {
      read_block(w, &w->k, w->x.row[i], w->decoded + i * D);
      w->x.row[i] = w->decoded + i * D;
    }
    w->kernels->logits(w->group, n, D, w->q, D, w->x.row, KV_F32, 0.08838835f,
                       w->s + at, LDS, w->x.pack);
  }
  kv_attend_rows(w->kernels, w->group, TOKENS, D, w->s, LDS, decoded_rows, w,
                 &w->x, want, w->lse);
  one_lane(w);
  if (memcmp(want, w->out, sizeof *want * (size_t)w->group * D) != 0)
    bench_fail("attention over codes differs from that over decoded rows");
}

/* Scales of 2^-8 to 2^-5 and minima about as large as half a range. */
static void fill(code_side *s, size_t rows, uint64_t *seed) {
  for (size_t i = 0; i < rows; i++) {
    char *to = s->rows + i * s->size;
    float scale = 0x1p-8f * (float)(1 + draw_below(seed, 8));
    float least = -scale * (float)(1 << s->bits >> 1);
    uint16_t range[2] = {kv_to_f16(scale), kv_to_f16(least)};
    memcpy(to, range, RANGE);
    for (size_t at = RANGE; at < s->size; at += 4) {
      uint32_t word = (uint32_t)draw(seed);
      memcpy(to + at, &word, 4);
    }
  }
}

static size_t row_of(int bits) { return RANGE + (size_t)D * (size_t)bits / 8; }

static code_side open_side(int bits, char *rows, size_t n, uint64_t *seed) {
  code_side s = {bits, row_of(bits), rows};
  fill(&s, n, seed);
  return s;
}

static void time_codes(const bench *b, work *w, size_t bytes, double read,
                       double half, double raw) {
  double time = best_of(all_lanes, w) / w->lanes; /* seconds a lane */
  double moved = (double)bytes / w->lanes * 1e-9 / time;
  double work_done = 4.0 * TOKENS * D * w->group * 1e-9 / time;
  double of_read = moved / read, of_half = work_done / half;
  bool by_read = of_read > of_half;
  char what[64];
  double least = strcmp(w->kernels->name, "avx512") ? 0.4 : 0.6;
  snprintf(what, sizeof what, "K%dV%d, group of %d: of %s", w->k.bits,
           w->v.bits, w->group, by_read ? "reading" : "half the FMA peak");
  bench_line(b, (line){.what = what,
                       .unit = by_read ? "GB/s" : "GFLOP/s",
                       .value = by_read ? moved : work_done,
                       .peer = by_read ? read : half,
                       .low = least});
  bench_line(b, (line){.what = "  the other ceiling",
                       .unit = by_read ? "GFLOP/s" : "GB/s",
                       .value = by_read ? work_done : moved,
                       .peer = by_read ? half : read});
  bench_line(b, (line){.what = "  fp16 rows take",
                       .unit = "x",
                       .value = raw / time,
                       .low = w->k.bits == 8 && w->v.bits == 4 ? 1 : 0});
}

static void time_pair(const bench *b, work *w, int k_bits, int v_bits,
                      char *rows, const double raw[2]) {
  uint64_t seed = 1;
  size_t lane = TOKENS * (row_of(k_bits) + row_of(v_bits));
  w->lanes = (int)(ALL_BYTES / lane);
  size_t tokens = (size_t)w->lanes * TOKENS;
  w->k = open_side(k_bits, rows, tokens, &seed);
  w->v = open_side(v_bits, rows + tokens * w->k.size, tokens, &seed);
  size_t bytes = tokens * (w->k.size + w->v.size);
  kv_large_written(rows, bytes); /* as a lane's slab does, page by page */
  double read = read_bandwidth(w->kernels->name, rows, bytes / 256 * 256);
  double half = fma_peak(w->kernels->name) / 2;
  for (int i = 0; i < 2; i++) {
    w->group = i ? GROUP : 1;
    check(w);
    time_codes(b, w, bytes, read, half, raw[i]);
  }
}

void theme_codes(const bench *b) {
  static const int bits[][2] = {{8, 8}, {8, 4}, {4, 4}, {4, 2}};
  double raw[2] = {bench_lane(1), bench_lane(GROUP)};
  work w = {.q = kv_zalloc(GROUP * D, sizeof(float)),
            .s = kv_zalloc((size_t)GROUP * LDS, sizeof(float)),
            .decoded = kv_zalloc((size_t)KV_CHUNK * D, sizeof(float))};
  char *rows = kv_zalloc_large(ALL_BYTES, 1);
  uint64_t seed = 2;
  kv_err e;
  if (kv_choose_kernels(&w.kernels, &e) != KV_OK) bench_fail("%s", e.text);
  if (!rows || !w.q || !w.s || !w.decoded ||
      kv_attend_scratch_init(&w.x, D, D, GROUP, TOKENS, &e) != KV_OK)
    bench_fail("not enough memory for rows of codes");
  kv_float_ground();
  for (int i = 0; i < GROUP * D; i++)
    w.q[i] = (float)(draw_below(&seed, 2048) - 1024) * 0x1p-10f;
  bench_theme(b, "decode attention over codes, 32,768 tokens, one thread",
              "ceiling");
  for (int i = 0; i < 4; i++)
    time_pair(b, &w, bits[i][0], bits[i][1], rows, raw);
  kv_attend_scratch_release(&w.x);
  free(w.q), free(w.s), free(w.decoded), free(rows);
}
