/* SPDX-License-Identifier: Apache-2.0
 *
 * What heads attend to, against plain loops in binary64, of four heads made to
 * be broad, a sink, local and one that finds an answer; the same to the bit by
 * every kernel set and any number of threads; rows that are not all recorded.
 * The same of how unequal tokens are.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "traces/container/writer.h"
#include "traces/trace/attention.h"

enum { HEADS = 4, KV = 2, D = 16, T = 150, P = 100, FROM = 90 };
enum { ROWS = T - FROM, ASKED = 5, SOURCE = 20 };

static float q[HEADS][T][D], k[KV][T][D], v[KV][T][D], few[HEADS][ROWS][D];
static int32_t rows[ROWS];

static float sign(void) {
  static uint64_t x = 7;
  x = x * 6364136223846793005u + 1442695040888963407u;
  return x >> 63 ? 1.0f : -1.0f;
}

/* Near tokens look alike to heads 2 and 3; the rest of their keys is a name,
 * for which head 3 asks where an answer repeats what stands at SOURCE. */
static void fill(void) {
  for (int t = 0; t < T; t++) {
    for (int i = 1; i < D; i++) k[0][t][i] = 0.1f * sign();
    for (int i = 2; i < D; i++) k[1][t][i] = 2.0f * sign();
    for (int i = 2; i < D; i++) q[0][t][i] = q[3][t][i] = 0.5f * sign();
    for (int i = 0; i < D; i++)
      v[0][t][i] = v[1][t][i] = sign() * (float)(1 << t % 9) / 16;
    k[1][t][0] = 12.0f * (float)cos(0.02 * t);
    k[1][t][1] = 12.0f * (float)sin(0.02 * t);
    q[1][t][0] = 8.0f;
    memcpy(q[2][t], k[1][t], 2 * sizeof(float));
  }
  k[0][0][0] = 4.0f;
  for (int i = 0; i < ASKED; i++)
    memcpy(&q[3][P - 1 + i][2], &k[1][SOURCE + i][2], (D - 2) * sizeof(float));
  for (int r = 0; r < ROWS; r++) {
    rows[r] = FROM + r;
    for (int h = 0; h < HEADS; h++)
      memcpy(few[h][r], q[h][rows[r]], sizeof few[h][r]);
  }
}

static void declare(kv_st_writer *w, const char *name, kv_st_dtype type,
                    int rank, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t shape[3] = {a, b, c};
  assert_int_equal(kv_st_writer_declare(w, name, type, rank, shape, NULL), 0);
}

static kv_trace *made(bool whole) {
  static const char *const meta[][2] = {
      {"format", "kvtrace"}, {"version", "1"},       {"model", "test"},
      {"n_layers", "1"},     {"n_heads", "4"},       {"n_kv_heads", "2"},
      {"head_dim", "16"},    {"layers", "all"},      {"attn.scale", "0.25"},
      {"prompt_len", "100"}, {"rope.layout", "half"}};
  const char *path = scratch_path("t.safetensors");
  kv_st_writer *w;
  kv_trace *t;
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  declare(w, "layers.0.q", KV_ST_F32, 3, HEADS, whole ? T : ROWS, D);
  declare(w, "layers.0.k", KV_ST_F32, 3, KV, T, D);
  declare(w, "layers.0.v", KV_ST_F32, 3, KV, T, D);
  if (!whole) declare(w, "layers.0.rows", KV_ST_I32, 1, ROWS, 0, 0);
  for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
    kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL);
  kv_st_writer_meta(w, "answers",
                    "[{\"start\": 100, \"end\": 105, \"source_start\": 20, "
                    "\"source_end\": 25}]",
                    NULL);
  kv_st_writer_append(w, whole ? sizeof q : sizeof few, whole ? q[0] : few[0],
                      NULL);
  kv_st_writer_append(w, sizeof k, k, NULL);
  kv_st_writer_append(w, sizeof v, v, NULL);
  if (!whole) kv_st_writer_append(w, sizeof rows, rows, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
  works(kv_trace_open(path, &t, &told));
  return t;
}

/* --- by plain loops ------------------------------------------------------ */

static int larger(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

static void row_of(int h, int t, double *p) {
  double sum = 0;
  for (int j = 0; j <= t; j++) {
    p[j] = 0;
    for (int i = 0; i < D; i++)
      p[j] += (double)q[h][t][i] * (double)k[h / (HEADS / KV)][j][i] * 0.25;
    sum += p[j] = exp(p[j]);
  }
  for (int j = 0; j <= t; j++) p[j] /= sum;
}

static void add_row(int h, int t, kv_attention *a) {
  double p[T], reached = 0;
  int n = 0;
  row_of(h, t, p);
  if (t >= P - 1 && t < P - 1 + ASKED) {
    a->asked++;
    a->needle += p[SOURCE + t - (P - 1)] / ASKED;
  }
  if (t < KV_ATTENTION_FROM) return;
  a->rows++;
  a->first += p[0];
  for (int j = t - 31; j <= t; j++) a->recent += p[j];
  for (int j = 0; j <= t; j++) a->entropy -= p[j] > 0 ? p[j] * log(p[j]) : 0;
  qsort(p, (size_t)t + 1, sizeof *p, larger);
  while (reached < 0.95) reached += p[n++];
  a->tokens += (double)n / (t + 1);
}

static kv_attention plain(int h, int from) {
  kv_attention a = {0};
  for (int t = from; t < T; t++) add_row(h, t, &a);
  a.entropy /= (double)a.rows;
  a.first /= (double)a.rows;
  a.recent /= (double)a.rows;
  a.tokens /= (double)a.rows;
  return a;
}

/* --- tests --------------------------------------------------------------- */

static bool near(double a, double b, double by) { return fabs(a - b) <= by; }

static void same_as_plain(bool whole) {
  kv_attention a[HEADS];
  kv_trace *t = made(whole);
  works(kv_attention_layer(t, 0, kv_kernels_best(), a, &told));
  kv_trace_close(t);
  for (int h = 0; h < HEADS; h++) {
    kv_attention b = plain(h, whole ? 0 : FROM);
    assert_int_equal(a[h].rows, b.rows);
    assert_int_equal(a[h].asked, b.asked);
    if (!near(a[h].entropy, b.entropy, 1e-4) ||
        !near(a[h].first, b.first, 1e-5) ||
        !near(a[h].recent, b.recent, 1e-5) ||
        !near(a[h].tokens, b.tokens, 2e-4) || /* one row, one more or less */
        !near(a[h].needle, b.needle, 1e-5))
      fail_msg("head %d: %g %g %g %g %g, not %g %g %g %g %g", h, a[h].entropy,
               a[h].first, a[h].recent, a[h].tokens, a[h].needle, b.entropy,
               b.first, b.recent, b.tokens, b.needle);
  }
}

TEST(test_every_row) {
  same_as_plain(true);
  assert_int_equal(plain(0, 0).rows, T - KV_ATTENTION_FROM);
}

TEST(test_few_rows) {
  same_as_plain(false);
  assert_int_equal(plain(0, FROM).rows, ROWS);
}

TEST(test_words) {
  static const char *const word[] = {"broad", "sink", "local", "retrieval"};
  kv_attention a[HEADS];
  kv_trace *t = made(true);
  assert_int_equal(kv_attention_layer(t, 0, kv_kernels_best(), a, NULL), 0);
  kv_trace_close(t);
  for (int h = 0; h < HEADS; h++)
    assert_string_equal(kv_attention_word(&a[h]), word[h]);
}

TEST(test_same_bits) {
  static const char *const sets[] = {"portable", "avx2", "avx512"};
  static kv_attention a[HEADS], b[HEADS]; /* static: their gaps are zero */
  kv_trace *t = made(true);
  int were = omp_get_max_threads();
  assert_int_equal(kv_attention_layer(t, 0, kv_kernels_best(), a, NULL), 0);
  for (int i = 0; i < 6; i++) {
    const kv_kernels *kernel;
    omp_set_num_threads(1 + 2 * (i % 2));
    assert_int_equal(kv_kernels_named(sets[i / 2], &kernel, NULL, NULL), 0);
    assert_int_equal(kv_attention_layer(t, 0, kernel, b, NULL), KV_OK);
    assert_memory_equal(a, b, sizeof a);
  }
  omp_set_num_threads(were);
  kv_trace_close(t);
}

static void refused(float *at, float x, const char *why) {
  kv_attention a[HEADS];
  float was = *at;
  *at = x;
  kv_trace *t = made(true);
  fails(kv_attention_layer(t, 0, kv_kernels_best(), a, &told), KV_INPUT, why);
  kv_trace_close(t);
  *at = was;
}

TEST(test_refused) {
  refused(&k[1][3][4], NAN, "layers.0.k");
  refused(&q[1][3][0], 3e38f, "layer 0: a logit is not finite");
}

int main(void) {
  fill();
  return tests_run("attention of heads", scratch_make, scratch_remove);
}
