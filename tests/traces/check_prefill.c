/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse prefill as a measure. Patterns on a grid of four blocks whose pairs
 * were worked out by hand; a trace of two heads whose attention is known in
 * closed form; laws: all pairs have all mass, one block is one pair, mass never
 * falls as pairs are added, rows of a map add up, the same bits by every kernel
 * set and number of threads; what a window hides is no pair; refusals.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/container/writer.h"
#include "traces/prefill/prefill.h"

enum { HEADS = 4, KV = 2, D = 8, T = 75, P = 70 };
enum { SLASH, SHAPE, TOPK };

/* --- patterns, by hand --------------------------------------------------- */

/* Eight tokens, four blocks of two. Pair (i, j) weighs 10 i + j, so that a sum
 * says which pairs are in it: 0; 10 11; 20 21 22; 30 31 32 33. */
static int32_t from[4] = {0, 0, 0, 0};
static int64_t first[5] = {0, 1, 3, 6, 10};
static const kv_grid four = {8, 2, 4, from, first};
static const int64_t weight[10] = {0, 10, 11, 20, 21, 22, 30, 31, 32, 33};

static int64_t kept(const kv_grid *grid, int pattern, const kv_pattern_of *of,
                    int pairs) {
  uint8_t in[10] = {0};
  kv_ranked room[32];
  kv_taking x = {grid, weight, in, pairs, 0};
  assert_true(kv_pattern_room(grid) <= sizeof room / sizeof *room);
  kv_patterns[pattern].take(of, room, &x);
  return x.kept;
}

static void takes(int pattern, const kv_pattern_of *of, const int *order) {
  int64_t sum = 0;
  for (int n = 0; n <= 10; n++) {
    assert_int_equal(kept(&four, pattern, of, n), sum);
    if (n < 10) sum += order[n];
  }
}

/* The first column from the last row up, the diagonal, then outwards. */
TEST(a_shape) {
  static const int order[10] = {30, 20, 10, 0, 33, 22, 11, 32, 21, 31};
  kv_pattern_of of = {.grid = &four};
  takes(SHAPE, &of, order);
}

/* Best of each row, then second best ..; equal: the lower. */
TEST(block_topk) {
  static const float pooled[10] = {5, 1, 2, 7, 7, 1, 0, -1, 3, 2};
  static const int order[10] = {32, 20, 11, 0, 33, 21, 10, 30, 22, 31};
  kv_pattern_of of = {.grid = &four, .pooled = pooled};
  takes(TOPK, &of, order);
}

/* Columns: 20 2 | 1 1 | 30 2 | 2 1: block 0 leads, then 2 (32), 3 (3), 1 (2),
 * which enter at 0, at the largest token, 30, at the mass of three, 52, and of
 * five, 56. Distances: 30 4 | 1 1 | 5 15 | 1 2: diagonal 0, then 2 (20), 3 (3),
 * 1 (2), at 0, 30, 50 and 56. So: column 0, diagonal 0; at 30 column 2, then
 * diagonal 2; at 50 and 52 nothing is new; at 56 column 1. */
TEST(vertical_slash) {
  static const int64_t column[8] = {20, 2, 1, 1, 30, 2, 2, 1};
  static const int64_t distance[8] = {30, 4, 1, 1, 5, 15, 1, 2};
  static const int order[10] = {30, 20, 10, 0, 33, 22, 11, 32, 31, 21};
  kv_pattern_of of = {.grid = &four, .column = column, .distance = distance};
  takes(SLASH, &of, order);
}

/* One kind is even, so that its lines enter at 0 1 3 5, and the other has all
 * on one token, 9: the even kind's lines are first, in order. */
TEST(one_kind_first) {
  static const int64_t even[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  static const int64_t peak[8] = {0, 0, 0, 0, 9, 0, 0, 0};
  static const int diagonals[10] = {30, 20, 10, 0, 33, 22, 11, 32, 21, 31};
  static const int columns[10] = {30, 20, 10, 0, 33, 22, 11, 31, 21, 32};
  kv_pattern_of of = {.grid = &four, .column = peak, .distance = even};
  takes(SLASH, &of, diagonals);
  of.column = even;
  of.distance = peak;
  takes(SLASH, &of, columns);
}

/* Block 3 sees blocks 2 and 3, the others theirs and the one before. */
TEST(windowed_grid) {
  int32_t band[4] = {0, 0, 1, 2};
  int64_t before[5] = {0, 1, 3, 5, 7};
  const kv_grid grid = {8, 2, 4, band, before};
  kv_pattern_of of = {.grid = &grid};
  /* weights are now of pairs 00; 10 11; 21 22; 32 33 = 0 10 11 20 21 22 30 */
  static const int order[7] = {10, 0, 30, 21, 11, 22, 20};
  int64_t sum = 0;
  for (int n = 0; n <= 7; n++) {
    assert_int_equal(kept(&grid, SHAPE, &of, n), sum);
    if (n < 7) sum += order[n];
  }
  assert_int_equal(kv_grid_at(&grid, 3, 1), -1);
  assert_int_equal(kv_grid_at(&grid, 1, 2), -1);
}

/* --- traces -------------------------------------------------------------- */

static float q[HEADS][T][D], k[KV][T][D], v[KV][T][D];

static float noise(void) {
  static uint64_t x = 11;
  x = x * 6364136223846793005u + 1442695040888963407u;
  return (float)(int)(x >> 40) / (1 << 22) - 2.0f;
}

static void fill(void) {
  for (int t = 0; t < T; t++)
    for (int i = 0; i < D; i++) {
      for (int h = 0; h < HEADS; h++) q[h][t][i] = noise();
      for (int g = 0; g < KV; g++) k[g][t][i] = noise();
    }
}

static void declare(kv_st_writer *w, const char *name, uint64_t a, uint64_t b) {
  uint64_t shape[3] = {a, b, D};
  assert_int_equal(kv_st_writer_declare(w, name, KV_ST_F32, 3, shape, NULL),
                   KV_OK);
}

/* Of q, k and v; window: of its layer, NULL: none. rows: recorded query rows,
 * those from T - rows on. */
static kv_trace *made(const char *window, int rows) {
  static const char *const meta[][2] = {
      {"format", "kvtrace"}, {"model", "test"},      {"n_layers", "1"},
      {"n_heads", "4"},      {"n_kv_heads", "2"},    {"head_dim", "8"},
      {"layers", "all"},     {"attn.scale", "0.25"}, {"prompt_len", "70"}};
  const char *path = scratch_path("t.safetensors");
  int32_t row[T];
  uint64_t n = (uint64_t)rows;
  kv_st_writer *w;
  kv_trace *t;
  kv_err e = {0};
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  declare(w, "layers.0.q", HEADS, n);
  declare(w, "layers.0.k", KV, T);
  declare(w, "layers.0.v", KV, T);
  if (rows < T)
    kv_st_writer_declare(w, "layers.0.rows", KV_ST_I32, 1, &n, NULL);
  for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
    kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL);
  kv_st_writer_meta(w, "version", window ? "2" : "1", NULL);
  if (window) kv_st_writer_meta(w, "attn.sliding_window", window, NULL);
  for (int h = 0; h < HEADS; h++)
    kv_st_writer_append(w, (size_t)rows * sizeof *q[h], q[h][T - rows], NULL);
  kv_st_writer_append(w, sizeof k, k, NULL);
  kv_st_writer_append(w, sizeof v, v, NULL);
  for (int r = 0; r < rows; r++) row[r] = T - rows + r;
  if (rows < T) kv_st_writer_append(w, (size_t)rows * sizeof *row, row, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  return t;
}

static void measured(const kv_trace *t, int block, int percent,
                     kv_prefill *out) {
  kv_err e = {0};
  if (kv_prefill_layer(t, 0, kv_kernels_best(), block, percent, out, &e))
    fail_msg("%s", e.text);
}

/* --- laws ---------------------------------------------------------------- */

/* All mass: the rows are 1 each, but for what rounding takes. */
static void whole(const kv_prefill *x) {
  int64_t off = x->mass - ((int64_t)P << 40);
  assert_true(llabs((long long)off) < (int64_t)P << 20);
}

TEST(all_pairs) {
  kv_prefill x[HEADS];
  kv_trace *t = made(NULL, T);
  for (int block = 1; block <= 40; block += 13) {
    int64_t n = (P - 1) / block + 1;
    measured(t, block, 100, x);
    for (int h = 0; h < HEADS; h++) {
      whole(&x[h]);
      assert_int_equal(x[h].pairs, n * (n + 1) / 2);
      assert_int_equal(x[h].needed, x[h].pairs);
      for (int p = 0; p < KV_PATTERNS; p++)
        assert_int_equal(x[h].kept[p], x[h].mass);
    }
  }
  kv_trace_close(t);
}

TEST(one_pair) {
  kv_prefill x[HEADS];
  kv_trace *t = made(NULL, T);
  for (int block = P; block < 4 * P; block += P)
    for (int percent = 1; percent <= 100; percent += 33) {
      measured(t, block, percent, x);
      for (int h = 0; h < HEADS; h++) {
        whole(&x[h]);
        assert_int_equal(x[h].pairs, 1);
        assert_int_equal(x[h].needed, 1);
        for (int p = 0; p < KV_PATTERNS; p++)
          assert_int_equal(x[h].kept[p], x[h].mass);
      }
    }
  kv_trace_close(t);
}

/* The needed pairs are the fewest: one less has not the share; no pattern of as
 * many has more than they; and none loses by more pairs. */
TEST(fewest) {
  kv_prefill x[HEADS], before[HEADS] = {{0}};
  kv_trace *t = made(NULL, T);
  for (int percent = 5; percent <= 100; percent += 5) {
    measured(t, 8, percent, x);
    for (int h = 0; h < HEADS; h++) {
      assert_true(x[h].needed >= before[h].needed);
      for (int p = 0; p < KV_PATTERNS; p++)
        assert_true(x[h].kept[p] >= before[h].kept[p]);
    }
    memcpy(before, x, sizeof before);
  }
  kv_trace_close(t);
}

/* Rows that attend evenly: row t gives 1 / (t + 1) to each token. Of two blocks
 * of 35 pair 00 has a mass of 35, 10 `far`, and 11 what is left. */
TEST(even) {
  static float was[HEADS][T][D];
  kv_prefill x[HEADS];
  double far = 0;
  memcpy(was, q, sizeof q);
  memset(q, 0, sizeof q);
  kv_trace *t = made(NULL, T);
  measured(t, 35, 90, x);
  for (int r = 35; r < P; r++) far += 35.0 / (r + 1);
  /* 35 and far, 24.0, are 84.3 % of 70 */
  assert_int_equal(x[0].needed, 3);
  measured(t, 35, 84, x);
  for (int h = 0; h < HEADS; h++) {
    assert_int_equal(x[h].needed, 2);
    double most = (double)x[h].kept[SHAPE] * 0x1p-40;
    assert_true(most - (35 + far) < 1e-4 && most - (35 + far) > -1e-4);
  }
  kv_trace_close(t);
  memcpy(q, was, sizeof q);
}

TEST(same_bits) {
  static const char *const sets[] = {"portable", "avx2", "avx512"};
  static kv_prefill a[HEADS], b[HEADS];
  kv_trace *t = made("40", T);
  int were = omp_get_max_threads();
  measured(t, 6, 80, a);
  for (int i = 0; i < 6; i++) {
    const kv_kernels *kernel;
    omp_set_num_threads(1 + 2 * (i % 2));
    assert_int_equal(kv_kernels_named(sets[i / 2], &kernel, NULL, NULL), 0);
    assert_int_equal(kv_prefill_layer(t, 0, kernel, 6, 80, b, NULL), KV_OK);
    assert_memory_equal(a, b, sizeof a);
  }
  omp_set_num_threads(were);
  kv_trace_close(t);
}

/* --- maps and windows ---------------------------------------------------- */

typedef struct seen {
  int heads, window;
} seen;

static kv_rc see(void *self, int head, const kv_grid *g, const int64_t *mass,
                 kv_err *e) {
  seen *x = self;
  (void)e;
  assert_int_equal(head, x->heads++);
  for (int i = 0; i < g->blocks; i++) {
    int64_t sum = 0, rows = i + 1 < g->blocks ? 16 : P - 16 * i;
    int least = x->window ? 16 * i - x->window + 1 : 0;
    assert_int_equal(g->from[i], least > 0 ? least / 16 : 0);
    for (int j = g->from[i]; j <= i; j++) {
      assert_true(mass[kv_grid_at(g, i, j)] > 0);
      sum += mass[kv_grid_at(g, i, j)];
    }
    assert_true(llabs((long long)(sum - (rows << 40))) < rows << 20);
  }
  return KV_OK;
}

TEST(maps) {
  for (int windowed = 0; windowed < 2; windowed++) {
    seen x = {0, windowed ? 20 : 0};
    kv_err e = {0};
    kv_trace *t = made(windowed ? "20" : NULL, T);
    if (kv_prefill_map(t, 0, kv_kernels_best(), 16, see, &x, &e))
      fail_msg("%s", e.text);
    assert_int_equal(x.heads, HEADS);
    kv_trace_close(t);
  }
}

/* --- refusals ------------------------------------------------------------ */

static void refused(kv_trace *t, const char *why) {
  kv_prefill x[HEADS];
  kv_err e = {0};
  assert_int_equal(kv_prefill_layer(t, 0, kv_kernels_best(), 8, 95, x, &e),
                   KV_INPUT);
  if (!strstr(e.text, why)) fail_msg("no '%s' in: %s", why, e.text);
  kv_trace_close(t);
}

TEST(refusals) {
  float was = q[1][3][0];
  refused(made(NULL, 15), "layer 0 has query rows of 10 of the prompt's 70");
  q[1][3][0] = 3e38f;
  refused(made(NULL, T), "not finite");
  q[1][3][0] = was;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shape),        cmocka_unit_test(block_topk),
      cmocka_unit_test(vertical_slash), cmocka_unit_test(one_kind_first),
      cmocka_unit_test(windowed_grid),  cmocka_unit_test(all_pairs),
      cmocka_unit_test(one_pair),       cmocka_unit_test(fewest),
      cmocka_unit_test(even),           cmocka_unit_test(same_bits),
      cmocka_unit_test(maps),           cmocka_unit_test(refusals)};
  fill();
  return cmocka_run_group_tests_name("sparse prefill", tests, scratch_make,
                                     scratch_remove);
}
