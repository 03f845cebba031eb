/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of ranking, which every selection passes through: the k largest are
 * those of a full sort - the larger key first, of equal keys the lower entry,
 * then the lower lane - also where most scores are equal; argmin and argmax
 * take the lower entry; top-p is the least prefix that reaches its mass, by
 * integers. Against sorts written here. The fold that digests of scores are
 * made of is XXH64.
 */
#include "ref/ground/arith.h"
#include "ref/ground/fold.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 3, MOST = 40, ROUNDS = 400 };

typedef struct item { /* an entry to rank */
  float score;
  int entry, lane;
} item;

static uint64_t seed = 1;

static int below(int n) { return draw_below(&seed, n); }

/* Few values, so that ties abound; both zeros; sometimes any number. */
static float drawn(void) {
  static const float few[] = {0.0f, -0.0f, 1.5f, -2.0f, 0x1p-140f};
  if (below(4)) return few[below(5)];
  return (float)(below(2000) - 1000) * 0.37f;
}

static int by_rank(const void *a, const void *b) {
  const item *x = a, *y = b;
  uint32_t p = kv_key(x->score), q = kv_key(y->score);
  if (p != q) return p > q ? -1 : 1;
  if (x->entry != y->entry) return x->entry - y->entry;
  return x->lane - y->lane;
}

TEST(top_is_a_sort) {
  for (int round = 0; round < ROUNDS; round++) {
    float score[LANES][MOST];
    bool keep[LANES][MOST], expected[LANES][MOST] = {{false}};
    const float *in[LANES];
    bool *out[LANES];
    int n[LANES], total = 0, lanes = 1 + below(LANES);
    item all[LANES * MOST];
    for (int l = 0; l < lanes; l++) {
      n[l] = 1 + below(MOST);
      in[l] = score[l];
      out[l] = keep[l];
      for (int i = 0; i < n[l]; i++) {
        score[l][i] = drawn();
        all[total++] = (item){score[l][i], i, l};
      }
    }
    int k = below(total + 3) - 1;
    qsort(all, (size_t)total, sizeof *all, by_rank);
    for (int i = 0; i < k && i < total; i++)
      expected[all[i].lane][all[i].entry] = true;
    kv_top_shared(in, n, lanes, k, out);
    for (int l = 0; l < lanes; l++)
      for (int i = 0; i < n[l]; i++)
        assert_int_equal(keep[l][i], expected[l][i]);
    if (lanes > 1) continue;
    kv_top(score[0], n[0], k, keep[0]);
    for (int i = 0; i < n[0]; i++) assert_int_equal(keep[0][i], expected[0][i]);
  }
}

TEST(arg_takes_the_lower) {
  for (int round = 0; round < ROUNDS; round++) {
    float score[MOST];
    bool in[MOST];
    int n = 1 + below(MOST), least = -1, most = -1, inside = -1;
    for (int i = 0; i < n; i++) score[i] = drawn(), in[i] = below(3) > 0;
    for (int i = n; i-- > 0;) {
      uint32_t key = kv_key(score[i]);
      if (least < 0 || key <= kv_key(score[least])) least = i;
      if (most < 0 || key >= kv_key(score[most])) most = i;
      if (in[i] && (inside < 0 || key <= kv_key(score[inside]))) inside = i;
    }
    assert_int_equal(kv_argmin(score, n, NULL), least);
    assert_int_equal(kv_argmax(score, n, NULL), most);
    assert_int_equal(kv_argmin(score, n, in), inside);
  }
  assert_int_equal(kv_argmin(NULL, 0, NULL), -1);
}

/* Four equal logits: a mass of 4 * 2^40, of which each has a quarter. */
TEST(top_p_reaches_exactly) {
  static char room[4096];
  const float s[4] = {2, 2, 2, 2};
  static const struct {
    int32_t p20;
    int count;
  } want[] = {{0, 1},       {1, 1},
              {1 << 18, 1}, {(1 << 18) + 1, 2},
              {1 << 19, 2}, {(1 << 19) + 1, 3},
              {3 << 18, 3}, {1 << 20, 4}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    kv_work work = {.base = room, .size = sizeof room};
    const kv_at at = {.kernels = kv_kernels_best(), .work = &work};
    bool keep[4];
    assert_int_equal(kv_top_p(&at, s, 4, want[i].p20, keep), want[i].count);
    for (int j = 0; j < 4; j++) assert_int_equal(keep[j], j < want[i].count);
  }
}

TEST(top_p_is_a_prefix) {
  static char room[16384];
  for (int round = 0; round < ROUNDS; round++) {
    float s[MOST], e[MOST];
    int64_t w[MOST] = {0}, sum = 0;
    item all[MOST];
    bool keep[MOST];
    int n = 1 + below(MOST), count = 0;
    int32_t p20 = below((1 << 20) + 1);
    for (int i = 0; i < n; i++) {
      s[i] = below(3) ? (float)below(4) : (float)below(900) * 0.01f;
      all[i] = (item){s[i], i, 0};
    }
    const kv_kernels *kernel = kv_kernels_best();
    int64_t mass = kernel->exp_sum(s, kernel->max(s, n), n, e);
    kernel->fix_add(e, n, w);
    /* mass < 2^46: its parts times 2^20 stay below 2^63. */
    int64_t target = (mass >> 20) * p20 + (((mass & 0xfffff) * p20) >> 20);
    qsort(all, (size_t)n, sizeof *all, by_rank);
    while (count == 0 || sum < target) sum += w[all[count++].entry];
    kv_work work = {.base = room, .size = sizeof room};
    const kv_at at = {.kernels = kernel, .work = &work};
    assert_int_equal(kv_top_p(&at, s, n, p20, keep), count);
    for (int i = 0; i < n; i++) assert_int_equal(keep[all[i].entry], i < count);
  }
}

/* --- folds of words ----------------------------------------------------- */

/* As libxxhash 0.8.1 answers for the words i * 2654435761. */
static const struct {
  int words;
  uint64_t fold;
} xxh64[] = {{0, 0xef46db3751d8e999},  {1, 0x3aefa6fd5cf2deb4},
             {2, 0xb617e10f4a256a10},  {3, 0xcb7d0c3a25f94b5e},
             {7, 0x8299d3eb041c77ab},  {8, 0x3dd0543edf5f34f7},
             {9, 0xd19a31382146abcd},  {16, 0x5bad255af2882093},
             {21, 0xe57ecc12d2590142}, {100, 0x68b9ebe03cace2ec}};

static uint64_t fold_of(const uint32_t *word, int n, int cut) {
  kv_fold f;
  kv_fold_begin(&f);
  kv_fold_add(&f, word, (size_t)cut);
  kv_fold_add(&f, word + cut, (size_t)(n - cut));
  return kv_fold_end(&f);
}

TEST(fold_is_xxh64) {
  uint32_t word[100];
  for (uint32_t i = 0; i < 100; i++) word[i] = i * 2654435761u;
  for (size_t i = 0; i < sizeof xxh64 / sizeof *xxh64; i++)
    for (int cut = 0; cut <= xxh64[i].words; cut++)
      assert_true(fold_of(word, xxh64[i].words, cut) == xxh64[i].fold);
  for (int i = 0; i < 100; i++) { /* one word that differs is seen */
    word[i] ^= 1u << i % 32;
    assert_true(fold_of(word, 100, 0) != xxh64[9].fold);
    word[i] ^= 1u << i % 32;
  }
}

/* Scores that are no numbers come from a trace that is rewritten while it is
 * read: something is kept, nothing aborts, on every kernel set. */
TEST(no_numbers_are_survived) {
  static const char *const sets[] = {"portable", "avx2", "avx512"};
  static const float odd[] = {NAN, INFINITY, -INFINITY};
  static char room[16384];
  for (int round = 0; round < ROUNDS; round++) {
    float s[MOST];
    bool keep[MOST];
    const kv_kernels *kernel;
    int n = 1 + below(MOST), often = 1 + below(4);
    kv_work work = {.base = room, .size = sizeof room};
    kv_kernels_named(sets[round % 3], &kernel, NULL, NULL);
    const kv_at at = {.kernels = kernel, .work = &work};
    for (int i = 0; i < n; i++)
      s[i] = below(often) ? (float)below(2000) - 1000 : odd[below(3)];
    assert_in_range(kv_top_p(&at, s, n, below((1 << 20) + 1), keep), 1, n);
    kv_top(s, n, 1 + below(n), keep);
    assert_in_range(kv_argmin(s, n, NULL), 0, n - 1);
  }
}

int main(void) { return tests_run("parts", NULL, NULL); }
