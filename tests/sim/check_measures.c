/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of what the measures stand on: the exact row agrees with binary64
 * within a derived bound and to the bit with its chains; top-k marks are those
 * of a full ranking, ties included; percentiles are nearest ranks of the
 * sorted values, and the mean sums in the order given. What intervals are made
 * of: squares and means of steps against plain sums over the values; aggregates
 * in passes against those in memory, to the bit; and a cell of many long
 * layers, of which no more than the one in hand is resident.
 */
#include "ref/ground/arith.h"
#include "ref/ground/shape.h"
#include "sim/replay/measure/fidelity.h"
#include "sim/replay/measure/fidelity_part.h"
#include "tests/support/told.h"
#include "tests/support/world.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The exact row against binary64: 16 products and 48 weights, each rounded
 * to 2^-24, leave less than 1e-5 of values below 4. */
TEST(truth_is_attention) {
  world w;
  world_open(&w, 2, 4, KV_HEAD, 1, false);
  for (int t = P; t < T; t++) {
    kv_truth_fill(w.truth, &w.data, 1, t, NULL);
    for (int h = 0; h < 4; h++) {
      double e[T], sum = 0;
      for (int i = 0; i <= t; i++) {
        float l = world_logit(&w, 4 + h, 1, t, i);
        assert_true(w.truth->s[(size_t)h * w.truth->stride + (size_t)i] == l);
        sum += e[i] = exp((double)l);
      }
      assert_true(fabs((double)w.truth->lse[h] - log(sum)) < 1e-5);
      for (int x = 0; x < DV; x++) {
        double o = 0;
        for (int i = 0; i <= t; i++)
          o += e[i] / sum *
               (double)w.v[((size_t)T + (size_t)i) * DV + (size_t)x];
        assert_true(fabs((double)w.truth->out[h * DV + x] - o) < 1e-5);
      }
    }
  }
  world_close(&w);
}

/* Rows whose queries are a subset that ends with the trace. */
TEST(rows_may_be_missing) {
  world w;
  int32_t rows[T];
  world_open(&w, 1, 1, KV_HEAD, 0, false);
  kv_truth_fill(w.truth, &w.data, 0, T - 2, NULL);
  float want = w.truth->s[7];
  for (int i = 0; i < T - 10; i++) rows[i] = 10 + i;
  w.data.q = w.q + 10 * D;
  w.data.n_rows = T - 10;
  w.data.rows = rows;
  kv_truth_fill(w.truth, &w.data, 0, T - 3, NULL);
  assert_true(w.truth->s[7] != want);
  kv_truth_fill(w.truth, &w.data, 0, T - 2, NULL);
  assert_true(w.truth->s[7] == want);
  world_close(&w);
}

/* Tokens with a larger logit, or an equal one and a lower index. */
static int rank_among(const float *s, int t, int i) {
  int n = 0;
  for (int j = 0; j <= t; j++)
    n += kv_key(s[j]) > kv_key(s[i]) || (kv_key(s[j]) == kv_key(s[i]) && j < i);
  return n;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

TEST(nearest_rank) {
  for (int n = 0; n < 300; n++) {
    double v[300], u[300], sum = 0;
    for (int i = 0; i < n; i++) {
      u[i] = n & 1 ? (double)world_below(7)
                   : ldexp((double)world_below(1 << 20), -10);
      sum += v[i] = u[i];
    }
    kv_stat got = kv_stat_of(v, n);
    qsort(u, (size_t)n, sizeof *u, by_value);
    assert_int_equal(got.count, n);
    if (n == 0) continue;
    assert_true(got.mean == sum / n && got.max == u[n - 1]);
    assert_true(got.p50 == u[(n + 1) / 2 - 1]);
    assert_true(got.p95 == u[(95 * n + 99) / 100 - 1]);
    assert_true(got.p99 == u[(99 * n + 99) / 100 - 1]);
  }
  double v[] = {(double)NAN, -3, (double)NAN, -5};
  kv_stat got = kv_stat_of(v, 4);
  assert_true(got.count == 2 && got.mean == -4 && got.max == -3 &&
              got.p50 == -5 && got.p95 == -3);
  double order[] = {1, 0x1p60, -0x1p60}; /* the sum shows the order */
  assert_true(kv_stat_of(order, 3).mean == 0);
}

/* The cuts of n values of which `kinds` are different. */
static void check_tops(int n, int kinds) {
  static const int32_t top[] = {1, 3, 16, 40, 90, 250};
  enum { TOPS = sizeof top / sizeof *top, MANY = 700 };
  float x[MANY], value[MANY], work[MANY];
  int32_t token[MANY], place[MANY];
  kv_top_cut cut[TOPS];
  for (int i = 0; i < n; i++) x[i] = (float)(world_below(kinds) - kinds / 2);
  kv_rank_top(kv_kernels_best(), n, x, TOPS, top, token, place, value, work,
              cut);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < TOPS; j++)
      assert_int_equal(kv_top_has(cut[j], x[i], i),
                       rank_among(x, n - 1, i) < top[j]);
}

TEST(nested_tops) {
  for (int n = 1; n < 80; n++) check_tops(n, 9);
  for (int n = 80; n <= 700; n += 31) {
    check_tops(n, 1);
    check_tops(n, 2);
    check_tops(n, 40);
    check_tops(n, 1 << 20);
  }
}

/* A sample that says nothing of the rest: every place of it holds a small
 * value, or a large one. */
TEST(a_sample_that_misleads) {
  enum { MANY = 640 };
  static const int32_t top[] = {5, 100, 320, 600};
  for (int sign = -1; sign <= 1; sign += 2) {
    float x[MANY], value[MANY], work[MANY];
    int32_t token[MANY], place[MANY];
    kv_top_cut cut[4];
    for (int i = 0; i < MANY; i++)
      x[i] = (float)(i % 10 == 0 ? sign * 5000 + i : world_below(1000));
    kv_rank_top(kv_kernels_best(), MANY, x, 4, top, token, place, value, work,
                cut);
    for (int i = 0; i < MANY; i++)
      for (int j = 0; j < 4; j++)
        assert_int_equal(kv_top_has(cut[j], x[i], i),
                         rank_among(x, MANY - 1, i) < top[j]);
  }
}

/* Of many rows some have brackets that miss, in the first round or a later one:
 * whatever was set aside by then, a set of the k largest has k tokens. */
TEST(sets_have_their_size) {
  enum { MANY = 1500 };
  static const int32_t top[] = {1, 6, 16, 64, 200, 900};
  static float x[MANY], value[MANY], work[MANY];
  static int32_t token[MANY], place[MANY];
  for (int row = 0; row < 400; row++) {
    int n = MANY - world_below(600);
    kv_top_cut cut[6];
    for (int i = 0; i < n; i++) x[i] = (float)world_below(1 << 20);
    kv_rank_top(kv_kernels_best(), n, x, 6, top, token, place, value, work,
                cut);
    for (int j = 0; j < 6 && top[j] < n; j++) {
      int has = 0;
      for (int i = 0; i < n; i++) has += kv_top_has(cut[j], x[i], i);
      assert_int_equal(has, top[j]);
    }
  }
}

TEST(every_measure_is_named) {
  for (int m = 0; m < KV_MEASURES; m++) {
    assert_non_null(kv_measure_table[m].name);
    assert_non_null(kv_measure_table[m].unit);
    for (int o = 0; o < m; o++)
      assert_string_not_equal(kv_measure_table[m].name,
                              kv_measure_table[o].name);
  }
}

/* --- moments ------------------------------------------------------------ */

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
  int layer[64], budget[64];
  kv_needle needle = {PROMPT + 2, PROMPT + 6, 0, 4};
  for (int i = 0; i < layers; i++) layer[i] = i, budget[i] = 8;
  works(kv_fidelity_open(s, layers, layer, budget, 1, &needle, &f, &told));
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
    assert_true(r.stat[m].mean == whole.mean);
    assert_true(r.part[1].stat[m].mean == one.mean);
    assert_true(r.part[LAYERS + 1 * KV + 1].stat[m].mean == lane.mean);
    assert_true(r.stat[m].squares == whole.squares);
    assert_true(r.part[1].stat[m].squares == one.squares);
    assert_true(r.part[LAYERS + 1 * KV + 1].stat[m].squares == lane.squares);
    for (int t = 0; t < STEPS; t++) {
      kv_stat at = plain(f, (kv_measure)m, every, heads, (int[]){t, t + 1});
      float got = r.step_mean[m * STEPS + t];
      assert_true(at.count ? got == (float)at.mean : isnan(got));
    }
  }
  for (int b = 0, step = PROMPT + 1; b < 16; b++) { /* steps in sixteen bins */
    const kv_part *p = &r.part[r.n_parts - 16 + b];
    kv_stat bin = plain(f, KV_KL, every, heads,
                        (int[]){step - 1 - PROMPT, p->last_step - PROMPT});
    assert_int_equal(p->bin, b);
    assert_int_equal(p->first_step, step);
    assert_int_equal(p->stat[KV_KL].count, bin.count);
    assert_true(p->stat[KV_KL].mean == bin.mean);
    step = p->last_step + 1;
    assert_true(b < 15 || step == PROMPT + STEPS + 1);
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
  enum { MANY = 3000 };
  static const int sizes[] = {0, 1, 2, 3, 20, 21, 99, 100, 101, 1000, MANY};
  double *v = calloc(MANY, sizeof *v);
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
  setenv("TMPDIR", "/nowhere/to/be/found", 1);
  fails(kv_spill_open(4, KV_SPILL_MEMORY, &s, &told), KV_RESOURCE,
        "/nowhere/to/be/found lacks ");
  assert_null(s.at);
  kv_spill_close(&s);
  unsetenv("TMPDIR");
  works(kv_spill_open(4, 100, &s, &told)); /* that is memory */
  assert_false(s.file);
  kv_spill_close(&s);
}

int main(void) {
  kv_float_ground();
  return tests_run("measures", NULL, NULL);
}
