/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode attention as the engine does it, fp16, d = 128, 32,768 tokens a
 * lane, groups of 1 and 4, on one thread and on two, each with lanes of its
 * own, 704 MiB in all: work that memory bounds. The ceiling is plainly reading
 * the same rows.
 */
#include "tests/bench/bench.h"

#include "ref/backend/attend.h"
#include "ref/ground/arith.h"
#include "ref/ground/large.h"
#include "ref/kernels/kernels.h"
#include "tests/bench/ceiling.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 128, GROUP = 4, TOKENS = 32768, LANES = 44, LDS = TOKENS + 16 };

#define ALL_BYTES ((size_t)2 * TOKENS * D * sizeof(uint16_t) * LANES)

typedef struct lane {
  const uint16_t *k, *v; /* [TOKENS][D] */
  float *q, *s;          /* [GROUP][D], [GROUP][LDS] */
  float out[GROUP * D], lse[GROUP];
  kv_attend_scratch x;
} lane;

typedef struct team {
  const kv_kernels *kernels;
  lane *lane;
  int threads, group;
} team;

static int name_rows(const uint16_t *base, int first, int count,
                     kv_attend_scratch *x) {
  int n = count < KV_CHUNK ? count : KV_CHUNK;
  for (int i = 0; i < n; i++) x->row[i] = base + (size_t)(first + i) * D;
  return n;
}

static int value_rows(void *ctx, int first, int count, kv_attend_scratch *x,
                      kv_row_kind *kind) {
  kind->type = KV_F16;
  return name_rows(((const lane *)ctx)->v, first, count, x);
}

static void one_lane(const kv_kernels *kernels, int group, lane *l) {
  for (int at = 0, n; at < TOKENS; at += n) {
    n = name_rows(l->k, at, TOKENS - at, &l->x);
    kernels->logits(group, n, D, l->q, D, l->x.row, KV_F16, 0.08838835f,
                    l->s + at, LDS, l->x.pack);
  }
  kv_attend_rows(kernels, group, TOKENS, D, l->s, LDS, value_rows, l, &l->x,
                 l->out, l->lse);
}

static void all_lanes(void *what) {
  team *t = what;
#pragma omp parallel for schedule(static) num_threads(t->threads)
  for (int i = 0; i < LANES; i++) {
    kv_float_ground();
    one_lane(t->kernels, t->group, &t->lane[i]);
  }
}

/* GB/s of two threads that read at once, each its half. */
static double read_by_two(const char *set, const char *data, size_t half) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(2)
  for (int i = 0; i < 2; i++)
    sum += read_bandwidth(set, data + (size_t)i * half, half);
  return sum;
}

static float draw(uint32_t *seed) { /* -1 to 1 */
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(int32_t)*seed * 0x1p-31f;
}

static void open_lane(uint16_t *rows, lane *l) {
  kv_err e;
  uint32_t seed = 1;
  *l = (lane){.k = rows,
              .v = rows + (size_t)TOKENS * D,
              .q = kv_zalloc(GROUP * D, sizeof(float)),
              .s = kv_zalloc((size_t)GROUP * LDS, sizeof(float))};
  if (!l->q || !l->s ||
      kv_attend_scratch_init(&l->x, D, D, GROUP, TOKENS, &e) != KV_OK)
    bench_fail("not enough memory for a lane");
  for (size_t i = 0; i < (size_t)2 * TOKENS * D; i++)
    rows[i] = kv_to_f16(draw(&seed));
  for (int i = 0; i < GROUP * D; i++) l->q[i] = draw(&seed);
}

/* The portable kernels and the best ones, one thread and two: the same. */
static void check(team t) {
  const kv_kernels *best = t.kernels;
  float *want = kv_zalloc(LANES, sizeof t.lane->out);
  if (!want) bench_fail("not enough memory to compare");
  for (int pass = 0; pass < 3; pass++) {
    t.kernels = best;
    t.threads = 1 + pass % 2;
    if (pass == 0) kv_kernels_named("portable", &t.kernels, NULL, NULL);
    all_lanes(&t);
    for (int i = 0; i < LANES; i++) {
      float *w = want + i * GROUP * D;
      if (pass == 0) memcpy(w, t.lane[i].out, sizeof t.lane->out);
      if (memcmp(w, t.lane[i].out, sizeof t.lane->out) != 0)
        bench_fail("decode attention differs between kernel sets or threads");
    }
  }
  free(want);
}

static void time_group(const bench *b, team t, size_t bytes,
                       const double read[2]) {
  double speed[2];
  char what[40];
  for (int i = 0; i < 2; i++) {
    t.threads = i + 1;
    speed[i] = (double)bytes / best_of(all_lanes, &t) * 1e-9;
    snprintf(what, sizeof what, "group of %d, %s", t.group,
             i ? "two threads" : "one thread");
    bench_line(b, (line){.what = what,
                         .unit = "GB/s",
                         .value = speed[i],
                         .peer = read[i],
                         .low = i ? 0 : 0.7});
  }
  bench_line(b, (line){.what = "  speedup on two idle cores",
                       .unit = "x",
                       .value = speed[1] / speed[0],
                       .low = 1.8});
}

/* What both measure: rows of all lanes, and the lanes. */
static team open_lanes(size_t bytes, char **rows) {
  team t = {kv_kernels_best(), kv_zalloc(LANES, sizeof *t.lane), 1, GROUP};
  *rows = kv_zalloc_large(bytes + 64, 1);
  if (!*rows || !t.lane) bench_fail("not enough memory for the lanes");
  kv_large_at_once(*rows, bytes); /* as a session's raw rows are */
  for (int i = 0; i < LANES; i++)
    open_lane((uint16_t *)(void *)*rows + (size_t)i * 2 * TOKENS * D,
              &t.lane[i]);
  check(t);
  return t;
}

static void close_lanes(team t, char *rows) {
  for (int i = 0; i < LANES; i++) {
    free(t.lane[i].q);
    free(t.lane[i].s);
    kv_attend_scratch_release(&t.lane[i].x);
  }
  free(t.lane);
  free(rows);
}

double bench_step(double weights, int lanes, int tokens) {
  char *rows;
  team t = open_lanes(ALL_BYTES, &rows);
  double speed = read_by_two(t.kernels->name, rows, ALL_BYTES / 2) * 1e9;
  t.threads = 2;
  double all = best_of(all_lanes, &t) / ((double)LANES * TOKENS);
  close_lanes(t, rows);
  return weights / speed + all * lanes * tokens;
}

double bench_lane(int group) {
  char *rows;
  team t = open_lanes(ALL_BYTES, &rows);
  t.group = group;
  double time = best_of(all_lanes, &t) / LANES;
  close_lanes(t, rows);
  return time;
}

void theme_attend(const bench *b) {
  char *rows;
  team t = open_lanes(ALL_BYTES, &rows);
  bench_theme(b, "decode attention fp16, 32,768 tokens", "reading");
  double read[2] = {read_bandwidth(t.kernels->name, rows, ALL_BYTES),
                    read_by_two(t.kernels->name, rows, ALL_BYTES / 2)};
  bench_line(
      b,
      (line){.what = "reading, one thread", .unit = "GB/s", .value = read[0]});
  bench_line(b, (line){.what = "  speedup of reading on two",
                       .unit = "x",
                       .value = read[1] / read[0]});
  for (t.group = 1; t.group <= GROUP; t.group += GROUP - 1)
    time_group(b, t, ALL_BYTES, read);
  close_lanes(t, rows);
}
