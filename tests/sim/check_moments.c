/* SPDX-License-Identifier: Apache-2.0
 *
 * What intervals are made of, and the memory that fidelity takes: squares and
 * means of steps against plain sums over the values; aggregates in passes
 * against those in memory, to the bit; and a cell of many long layers, of
 * which no more than the one in hand is resident.
 */
#include "ref/ground/shape.h"
#include "sim/replay/measure/fidelity.h"
#include "sim/replay/measure/fidelity_part.h"
#include "tests/support/test.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV = 2, PROMPT = 3 };

/* --- values made up from where they stand ------------------------------- */

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/* Of all sizes and both signs, many equal ones, some null. */
static double made_up(uint64_t seed) {
  uint64_t x = mix(seed);
  if (x % 11 == 0) return (double)NAN;
  if (x % 5 == 0) return (double)(x >> 8 & 3) / 4;
  double y = ldexp((double)(x >> 12), -52 - (int)(x >> 4 & 31));
  return x & 8 ? -y : y;
}

static void fill_layer(kv_fidelity *f, int layer) {
  kv_fidelity_layer_begin(f, layer);
  for (int m = 0; m < KV_MEASURES; m++)
    for (int h = 0; h < HEADS; h++) {
      double *v = kv_fidelity_head(f, (kv_measure)m, layer, h);
      for (int i = 0; i < f->width[m]; i++)
        v[i] = made_up((uint64_t)i * 64 + (uint64_t)h * 16 +
                       (uint64_t)m * 0x100000000 + (uint64_t)layer);
    }
  kv_fidelity_layer_end(f, layer);
}

static kv_shape shape_of(int layers, int steps) {
  return (kv_shape){.n_layers = layers,
                    .n_heads = HEADS,
                    .n_kv_heads = KV,
                    .d = 4,
                    .d_v = 4,
                    .n_tokens = PROMPT + steps,
                    .prompt_len = PROMPT,
                    .dtype = KV_F16,
                    .scale = 1};
}

static kv_fidelity *open_layers(const kv_shape *s, int layers) {
  kv_fidelity *f = NULL;
  kv_err e = {0};
  int layer[64], budget[64];
  kv_needle needle = {PROMPT + 2, PROMPT + 6, 0, 4};
  for (int i = 0; i < layers; i++) layer[i] = i, budget[i] = 8;
  if (kv_fidelity_open(s, layers, layer, budget, 1, &needle, &f, &e))
    fail_msg("%s", e.text);
  return f;
}

/* --- what is in a row --------------------------------------------------- */

static bool same_stat(const kv_stat *a, const kv_stat *b) {
  return a->count == b->count && a->mean == b->mean && a->p50 == b->p50 &&
         a->p95 == b->p95 && a->p99 == b->p99 && a->max == b->max &&
         a->squares == b->squares;
}

/* Plain sums over the values of a range, in the order that is promised. */
static kv_stat plain(const kv_fidelity *f, kv_measure m, const int l[2],
                     const int h[2], const int step[2]) {
  kv_stat s = {0};
  double sum = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = l[0]; i < l[1]; i++)
      for (int j = h[0]; j < h[1]; j++)
        for (int t = step[0]; t < step[1]; t++) {
          double x = kv_fidelity_value(f, m, i, j, PROMPT + t);
          if (isnan(x)) continue;
          if (pass) s.squares += (x - s.mean) * (x - s.mean);
          if (!pass) sum += x, s.count++, s.mean = sum / (double)s.count;
        }
  return s;
}

/* lse_error summed over steps, one head after the other; the mean of these. */
static double drift(const kv_fidelity *f, const int at[2], const int head[2],
                    const int step[2]) {
  double all = 0;
  for (int l = at[0]; l < at[1]; l++)
    for (int h = head[0]; h < head[1]; h++) {
      double sum = 0;
      for (int t = step[0]; t < step[1]; t++) {
        double x = kv_fidelity_value(f, KV_LSE_ERROR, l, h, PROMPT + t);
        if (!isnan(x)) sum += x;
      }
      all += sum;
    }
  return all / ((at[1] - at[0]) * (head[1] - head[0]));
}

TEST(squares_and_means) {
  enum { LAYERS = 3, STEPS = 40 };
  kv_shape s = shape_of(LAYERS, STEPS);
  kv_fidelity *f = open_layers(&s, LAYERS);
  kv_result r = {0};
  for (int l = LAYERS - 1; l >= 0; l--) fill_layer(f, l);
  assert_int_equal(kv_fidelity_finish(f, &r, NULL), KV_OK);
  const int every[2] = {0, LAYERS}, heads[2] = {0, HEADS}, all[2] = {0, STEPS};
  for (int m = 0; m < KV_MEASURES; m++) {
    kv_stat whole = plain(f, (kv_measure)m, every, heads, all);
    kv_stat one = plain(f, (kv_measure)m, (int[]){1, 2}, heads, all);
    kv_stat lane = plain(f, (kv_measure)m, (int[]){1, 2}, (int[]){2, 4}, all);
    assert_int_equal(r.stat[m].count, whole.count);
    assert_true(r.stat[m].squares == whole.squares);
    assert_true(r.part[1].stat[m].squares == one.squares);
    assert_true(r.part[LAYERS + 1 * KV + 1].stat[m].squares == lane.squares);
    for (int t = 0; t < STEPS; t++) {
      kv_stat at = plain(f, (kv_measure)m, every, heads, (int[]){t, t + 1});
      float got = r.step_mean[m * STEPS + t];
      assert_true(at.count ? got == (float)at.mean : isnan(got));
    }
  }
  assert_true(r.stat[KV_TV].squares > 0);
  assert_true(r.drift == drift(f, every, heads, all));
  assert_true(r.part[1].drift == drift(f, (int[]){1, 2}, heads, all));
  assert_true(r.part[LAYERS + 1 * KV + 1].drift ==
              drift(f, (int[]){1, 2}, (int[]){2, 4}, all));
  assert_true(r.part[r.n_parts - 1].drift ==
              drift(f, every, heads, (int[]){15 * STEPS / 16, STEPS}));
  kv_result_free(&r);
  kv_fidelity_close(f);
}

TEST(passes_give_the_same) {
  enum { MOST = 3000 };
  static const int sizes[] = {0, 1, 2, 3, 20, 21, 99, 100, 101, 1000, MOST};
  double *v = calloc(MOST, sizeof *v);
  kv_tally *t = calloc(1, sizeof *t);
  assert_true(v && t);
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (uint64_t seed = 0; seed < 4; seed++) {
      kv_tally_begin(t);
      while (kv_tally_pass(t))
        for (int i = 0; i < sizes[k]; i++)
          kv_tally_add(t, made_up(seed << 32 | (uint64_t)i));
      for (int i = 0; i < sizes[k]; i++)
        v[i] = made_up(seed << 32 | (uint64_t)i);
      kv_stat s = kv_stat_of(v, sizes[k]);
      assert_true(same_stat(&s, &t->stat));
    }
  free(v);
  free(t);
}

/* --- memory ------------------------------------------------------------- */

/* Bytes of a field of /proc/self/status. */
static int64_t status(const char *field) {
  char line[256];
  long long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, field, strlen(field)))
      sscanf(line + strlen(field), ": %lld", &kib);
  if (f) fclose(f);
  return kib < 0 ? -1 : (int64_t)kib * 1024;
}

static int64_t resident(void) {
  return status("RssAnon") + status("RssFile") + status("RssShmem");
}

static int64_t allocated(void) {
  struct mallinfo2 m = mallinfo2();
  return (int64_t)(m.uordblks + m.hblkhd);
}

/* 40 layers of 3.9 MB: in the file. Memory, allocated or resident, stays within
 * a few layers while they are filled and while the row is made, and every part
 * is that of the values in memory. */
TEST(one_layer_is_resident) {
  enum { LAYERS = 40, STEPS = 9000 };
  kv_shape s = shape_of(LAYERS, STEPS);
  int64_t at_first = resident(), heap = allocated(), most = 0;
  kv_fidelity *f = open_layers(&s, LAYERS);
  kv_result r = {0};
  int64_t layer = (int64_t)(f->values * sizeof(double));
  assert_true(f->spill.file && LAYERS * layer > 120 << 20);
  for (int l = 0; l < LAYERS; l++) {
    fill_layer(f, l);
    most = resident() > most ? resident() : most;
  }
  assert_true(most - at_first < 3 * layer);
  assert_true(allocated() - heap < layer);
  assert_int_equal(kv_fidelity_finish(f, &r, NULL), KV_OK);
  assert_true(resident() - at_first < 40 << 20);
  const int every[2] = {0, LAYERS}, heads[2] = {0, HEADS}, all[2] = {0, STEPS};
  kv_stat whole = plain(f, KV_KL, every, heads, all);
  size_t n = (size_t)whole.count, at = 0;
  double *v = calloc(n, sizeof *v);
  assert_non_null(v);
  for (int l = 0; l < LAYERS; l++)
    for (int h = 0; h < HEADS; h++)
      for (int t = 0; t < STEPS; t++) {
        double x = kv_fidelity_value(f, KV_KL, l, h, PROMPT + t);
        if (!isnan(x)) v[at++] = x;
      }
  kv_stat want = kv_stat_of(v, (int64_t)n);
  assert_true(same_stat(&want, &r.stat[KV_KL]));
  free(v);
  kv_result_free(&r);
  kv_fidelity_close(f);
}

TEST(no_room_is_told) {
  kv_spill s;
  kv_err e = {0};
  setenv("TMPDIR", "/nowhere/to/be/found", 1);
  assert_int_equal(kv_spill_open(4, KV_SPILL_MEMORY, &s, &e), KV_RESOURCE);
  if (!strstr(e.text, "/nowhere/to/be/found has no room"))
    fail_msg("%s", e.text);
  assert_null(s.at);
  kv_spill_close(&s);
  unsetenv("TMPDIR");
  assert_int_equal(kv_spill_open(4, 100, &s, &e), KV_OK); /* that is memory */
  assert_false(s.file);
  kv_spill_close(&s);
}

int main(void) { return tests_run("moments", NULL, NULL); }
