/* SPDX-License-Identifier: Apache-2.0
 *
 * Cosines of every two rows (kv_kernels.similar), each set against plain loops
 * over all pairs: numbers of rows around the tiles' edges, sums to the bit,
 * equal rows, and the last row above a threshold that many exceed. The nearest
 * rows (kv_kernels.nearest) against plain loops, too: of equals the earlier,
 * of what a token may see alone, and what is not finite by none.
 */
#include "ref/ground/arith.h"
#include "tests/support/draw.h"
#include "tests/support/little.h"
#include "tests/support/sets.h"

#include <stdlib.h>
#include <string.h>

#include "ref/parts/similar.h"
#include "tests/support/test.h"

enum { ROWS = 200, MOST_D = 130 };

static float unit[ROWS * MOST_D],
    pack[KV_PACK * MOST_D] __attribute__((aligned(64)));
static int64_t sum[ROWS], want_sum[ROWS];
static int32_t last[ROWS], want_last[ROWS];
static uint64_t seed = 0x9e3779b97f4a7c15u;

/* Rows about as long as 1 that share a direction; one in four is repeated. */
static void fill(int n, int d) {
  for (int i = 0; i < n; i++)
    for (int x = 0; x < d; x++) {
      float noise = (float)(int64_t)draw(&seed) * 0x1p-63f;
      float *to = &unit[i * d + x];
      *to = kv_mul(kv_add(noise, 0.5f), kv_div(1.2f, kv_sqrt((float)d)));
      if (i % 4 == 3) *to = unit[(i - 1) * d + x];
    }
}

static float cosine(int d, int i, int j) {
  float s = 0;
  for (int x = 0; x < d; x++) s = kv_fma(unit[i * d + x], unit[j * d + x], s);
  return s;
}

static void plain(int n, int d, float least) {
  for (int i = 0; i < n; i++) {
    want_sum[i] = 0;
    want_last[i] = -1;
    for (int j = 0; j < n; j++) {
      float s = cosine(d, i, j);
      if (i == j) continue;
      want_sum[i] += kv_fix_cosine(s);
      if (s > least) want_last[i] = j;
    }
  }
}

static void agrees(const kv_kernels *k, int n, int d, float least) {
  memset(sum, 0, sizeof sum);
  memset(last, 0xff, sizeof last);
  for (int j = 0; j < n; j += KV_PACK)
    k->similar(j, n - j < KV_PACK ? n - j : (int)KV_PACK, d, unit, least, sum,
               last, pack);
  if (memcmp(sum, want_sum, (size_t)n * sizeof *sum) != 0)
    fail_msg("%s: %d rows of %d: the sums differ", k->name, n, d);
  if (memcmp(last, want_last, (size_t)n * sizeof *last) != 0)
    fail_msg("%s: %d rows of %d: the last ones differ", k->name, n, d);
}

TEST(pairs) {
  static const int rows[] = {1, 2, 7, 63, 64, 65, 127, 128, 129, 200};
  static const int width[] = {1, 2, 17, 64, 130};
  static const float least[] = {0, 0.3f, 0.7f, 1};
  for (size_t r = 0; r < sizeof rows / sizeof *rows;
       r += (size_t)little_step(3))
    for (size_t w = 0; w < sizeof width / sizeof *width; w++) {
      fill(rows[r], width[w]);
      for (int l = 0; l < 4; l++) {
        plain(rows[r], width[w], least[l]);
        for (int s = 0; s < n_sets; s++)
          agrees(sets[s], rows[r], width[w], least[l]);
      }
    }
}

/* Half of a step of the sum goes to the even one, either side of zero. */
TEST(rounding) {
  static const float x[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
  static const int64_t want[] = {0, 2, 2, 0, -2};
  for (int i = 0; i < 5; i++) {
    unit[0] = 1;
    unit[1] = kv_mul(x[i], 0x1p-24f);
    plain(2, 1, 0);
    assert_int_equal(want_sum[0], want[i]);
    for (int s = 0; s < n_sets; s++) agrees(sets[s], 2, 1, 0);
  }
}

/* --- the nearest --------------------------------------------------------- */

enum { MOST_K = 5 };

static float norm[ROWS], value[KV_PACK * MOST_K], want_value[KV_PACK * MOST_K];
static int32_t seen[KV_PACK], found[KV_PACK], want_found[KV_PACK];
static int32_t which[KV_PACK * MOST_K], want_which[KV_PACK * MOST_K];

static float dot(int d, const float *a, const float *b) {
  float s = 0;
  for (int x = 0; x < d; x++) s = kv_fma(a[x], b[x], s);
  return kv_add(s, 0.0f);
}

/* The next one after (least, before) of what token j sees; false: none. */
static bool next(int d, const float *token, int may, float *least, int *at) {
  float v, best = 0;
  int i, found_at = -1;
  for (i = 0; i < may; i++) {
    v = kv_fma(-2.0f, dot(d, token, unit + i * d), norm[i]);
    if (!kv_finite(v) || v < *least || (!(v > *least) && i <= *at)) continue;
    if (found_at < 0 || v < best) best = v, found_at = i;
  }
  if (found_at < 0) return false;
  *least = best;
  *at = found_at;
  return true;
}

static void plain_nearest(int n, int d, const float *token, int rows, int k) {
  for (int j = 0; j < n; j++) {
    float least = -__builtin_inff();
    int at = -1, may = seen[j] < rows ? seen[j] : rows, e = 0;
    for (; e < k && next(d, token + j * d, may, &least, &at); e++) {
      want_which[j * k + e] = at;
      want_value[j * k + e] = least;
    }
    want_found[j] = e;
  }
}

static void agree_nearest(const kv_kernels *kernels, int n, int d,
                          const float *token, int rows, int k) {
  kernels->nearest(n, d, token, rows, unit, norm, seen, k, which, found, value,
                   pack);
  for (int j = 0; j < n; j++) {
    size_t bytes = (size_t)want_found[j] * sizeof *which;
    if (found[j] != want_found[j] ||
        memcmp(which + j * k, want_which + j * k, bytes) != 0 ||
        memcmp(value + j * k, want_value + j * k, bytes) != 0)
      fail_msg("%s: %d tokens, %d rows of %d, k = %d: token %d differs",
               kernels->name, n, rows, d, k, j);
  }
}

/* Tokens are some of the rows, and see all before them, or all. */
TEST(ranked) {
  static const int rows[] = {1, 5, 63, 64, 65, 200};
  static const int width[] = {1, 17, 130};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t w = 0; w < sizeof width / sizeof *width; w++) {
      int d = width[w], n = rows[r] < KV_PACK ? rows[r] : (int)KV_PACK;
      int from = rows[r] - n, k = 1 + (int)(r + w) % MOST_K;
      fill(rows[r], d);
      for (int i = 0; i < rows[r]; i++)
        norm[i] = dot(d, unit + i * d, unit + i * d);
      if (rows[r] > 2) norm[1] = __builtin_inff();
      for (int j = 0; j < n; j++) seen[j] = j % 2 ? from + j : rows[r];
      plain_nearest(n, d, unit + from * d, rows[r], k);
      for (int s = 0; s < n_sets; s++)
        agree_nearest(sets[s], n, d, unit + from * d, rows[r], k);
    }
}

static int begin(void **state) {
  kv_float_ground();
  return find_sets(state);
}

int main(void) { return tests_run("similar", begin, NULL); }
