/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI's formats, code by code, against their definition written out with
 * the library's fp16 conversions and fmaf: both sides, both rules, both
 * widths of a code, many widths of a row and groups, on numbers with full
 * mantissas, on halves, on subnormals and on large ones. A block is exactly
 * as long as its size says. Numbers on the grid come back to the bit, others
 * within half a step; constants have scale 0 and come back as fp16; what does
 * not fit fp16 is refused; channels do not see each other.
 */

#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "tests/support/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, WIDTH = 150, GUARD = 16 };

typedef struct coding {
  const kv_format *format;
  kv_minmax is;
} coding;

static float h(float x) { return kv_from_f16(kv_to_f16(x)); }

/* One number of a group whose values are x[0..n), by the definition. */
static float defined(const coding *c, int n, const float *x, float v) {
  float levels = (float)((1 << c->is.bits) - 1), lo = x[0], hi = x[0], s, m, y;
  for (int i = 1; i < n; i++) {
    lo = kv_key(x[i]) < kv_key(lo) ? x[i] : lo;
    hi = kv_key(x[i]) > kv_key(hi) ? x[i] : hi;
  }
  if (c->is.rule) {
    lo = h(lo);
    hi = h(hi);
    s = h(h(hi - lo) / levels);
    m = lo;
    y = s == 0 ? 0 : rintf(h(h(h(v) - m) / s));
  } else {
    s = h((hi - lo) / levels);
    m = h(lo);
    y = s == 0 ? 0 : rintf((v - m) / s);
  }
  y = y > 0 ? y : 0; /* a code is an integer: no -0 */
  y = y < levels ? y : levels;
  return fmaf(y, s, m);
}

/* --- data ---------------------------------------------------------------- */

static uint32_t seed = 1;

static uint32_t next(void) {
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

/* In (-2, 2) with 24 bits. */
static float number(void) {
  return (float)((int32_t)next() - 0x800000) * 0x1p-22f;
}

typedef struct block {
  float x[ROWS][WIDTH];
  const float *row[ROWS];
  char bytes[ROWS * WIDTH + 4 * WIDTH + GUARD];
  size_t size;
} block;

static void fill(block *b, float scale, bool halves) {
  for (int m = 0; m < ROWS; m++) {
    b->row[m] = b->x[m];
    for (int i = 0; i < WIDTH; i++) {
      b->x[m][i] = number() * scale;
      if (halves) b->x[m][i] = h(b->x[m][i]);
    }
  }
}

/* Codes into a block of the size that the format says, with guards. */
static bool encode(const coding *c, int members, int width, block *b) {
  kv_coded_size s = c->format->size(&c->is, members, width);
  b->size = s.codes + s.metadata;
  assert_true(b->size + GUARD <= sizeof b->bytes);
  memset(b->bytes, 0x5a, sizeof b->bytes);
  bool fits = c->format->encode(&c->is, members, width, b->row, b->bytes);
  for (size_t i = 0; i < GUARD; i++)
    assert_int_equal(b->bytes[b->size + i], 0x5a);
  return fits;
}

/* By every set of kernels that runs here: the same bits. */
static void decode(const coding *c, int members, int width, const void *in,
                   int member, float *out) {
  static const char *const name[] = {"avx512", "avx2", "portable"};
  float first[WIDTH];
  for (int i = 0; i < 3; i++) {
    const kv_kernels *kernels;
    assert_int_equal(kv_kernels_named(name[i], &kernels, NULL, NULL), KV_OK);
    c->format->decode(kernels, &c->is, members, width, in, member, out);
    size_t n = (size_t)width * sizeof *out;
    if (i == 0) memcpy(first, out, n);
    assert_memory_equal(first, out, n);
  }
}

/* --- the definition ------------------------------------------------------ */

static void channels(const coding *c, int members, int width, block *b) {
  float column[ROWS], out[WIDTH + 1];
  assert_true(encode(c, members, width, b));
  for (int m = 0; m < members; m++) {
    out[width] = 7;
    decode(c, members, width, b->bytes, m, out);
    assert_true(out[width] == 7);
    for (int x = 0; x < width; x++) {
      for (int i = 0; i < members; i++) column[i] = b->x[i][x];
      float want = defined(c, members, column, b->x[m][x]);
      if (kv_bits(out[x]) != kv_bits(want))
        fail_msg("channel %d of %d, row %d of %d, bits %d, fp16 %d: %a, not "
                 "%a (from %a)",
                 x, width, m, members, c->is.bits, c->is.rule, (double)out[x],
                 (double)want, (double)b->x[m][x]);
    }
  }
}

static void tokens(const coding *c, int width, block *b) {
  float out[WIDTH + 1];
  out[width] = 7;
  assert_true(encode(c, 1, width, b));
  decode(c, 1, width, b->bytes, 0, out);
  assert_true(out[width] == 7);
  for (int x = 0; x < width; x++) {
    int first = x / c->is.group * c->is.group, n = c->is.group;
    if (first + n > width) n = width - first;
    float want = defined(c, n, b->x[0] + first, b->x[0][x]);
    if (kv_bits(out[x]) != kv_bits(want))
      fail_msg("element %d of %d, group %d, bits %d, fp16 %d: %a, not %a", x,
               width, c->is.group, c->is.bits, c->is.rule, (double)out[x],
               (double)want);
  }
}

TEST(as_defined) {
  static const int width[] = {1, 2, 3, 5, 8, 31, 32, 64, 65, 80, 96, 128, 150};
  static const float scale[] = {1, 0x1p-9f, 0x1p-15f, 0x1p-22f, 0x1p-26f, 3000};
  static const int group[] = {1, 2, 3, 16, 32, 40};
  block *b = malloc(sizeof *b);
  assert_non_null(b);
  for (size_t s = 0; s < sizeof scale / sizeof *scale; s++)
    for (int v = 0; v < 8; v++) {
      coding c = {.is = {.bits = v & 1 ? 4 : 2, .rule = (v & 2) != 0}};
      fill(b, scale[s], v & 4);
      for (size_t w = 0; w < sizeof width / sizeof *width; w++)
        for (size_t g = 0; g < sizeof group / sizeof *group; g++) {
          c.is.group = group[g];
          c.format = &kv_format_channel;
          channels(&c, c.is.group, width[w], b);
          c.format = &kv_format_token;
          tokens(&c, width[w], b);
        }
    }
  free(b);
}

/* --- laws ---------------------------------------------------------------- */

TEST(sizes) {
  coding k = {&kv_format_channel, {2, 32, 0}};
  coding v = {&kv_format_token, {2, 32, 0}};
  for (int bits = 2; bits <= 4; bits += 2) {
    k.is.bits = v.is.bits = bits;
    kv_coded_size a = kv_format_channel.size(&k.is, 32, 128);
    kv_coded_size b = kv_format_token.size(&v.is, 1, 128);
    assert_int_equal(a.codes, 32 * 128 * bits / 8);
    assert_int_equal(a.metadata, 128 * 4);
    assert_int_equal(b.codes, 128 * bits / 8);
    assert_int_equal(b.metadata, 4 * 4);
    assert_int_equal((a.codes + a.metadata) / 32 + b.codes + b.metadata,
                     bits == 2 ? 96 : 160);
  }
  assert_int_equal(kv_format_token.size(&v.is, 1, 33).metadata, 8);
  assert_int_equal(k.format->members(&k.is), 32);
  assert_int_equal(v.format->members(&v.is), 1);
}

/* Values min + code * scale of fp16 scale and minimum come back to the bit;
 * others keep their order. */
TEST(grid) {
  block *b = malloc(sizeof *b);
  float out[WIDTH];
  assert_non_null(b);
  for (int v = 0; v < 4; v++) {
    int bits = v & 1 ? 4 : 2, levels = (1 << bits) - 1;
    coding c = {&kv_format_token, {bits, 25, (v & 2) != 0}};
    fill(b, 1, true);
    for (int x = 0; x < WIDTH; x++)
      b->x[0][x] = -1.5f + 0.25f * (float)(x < 32 ? x & levels : x * 7 % 16);
    for (int x = 0; x < WIDTH; x += 25) {
      b->x[0][x] = -1.5f;
      b->x[0][x + 1] = -1.5f + 0.25f * (float)levels;
      for (int i = 2; i < 25; i++)
        b->x[0][x + i] = -1.5f + 0.25f * (float)(i * 5 & levels);
    }
    assert_true(encode(&c, 1, WIDTH, b));
    decode(&c, 1, WIDTH, b->bytes, 0, out);
    assert_memory_equal(out, b->x[0], sizeof out);
    fill(b, 1, false);
    c.is.group = WIDTH;
    assert_true(encode(&c, 1, WIDTH, b));
    decode(&c, 1, WIDTH, b->bytes, 0, out);
    for (int i = 0; i < WIDTH; i++)
      for (int j = 0; j < WIDTH; j++)
        if (b->x[0][i] <= b->x[0][j]) assert_true(out[i] <= out[j]);
  }
  free(b);
}

TEST(constant) {
  block *b = malloc(sizeof *b);
  float out[WIDTH];
  assert_non_null(b);
  for (int v = 0; v < 4; v++) {
    coding c = {v & 1 ? &kv_format_token : &kv_format_channel,
                {2, 8, (v & 2) != 0}};
    for (int m = 0; m < ROWS; m++)
      for (int x = 0; x < WIDTH; x++) b->x[m][x] = 20007.0f;
    for (int m = 0; m < ROWS; m++) b->row[m] = b->x[m];
    assert_true(encode(&c, v & 1 ? 1 : 8, WIDTH, b));
    decode(&c, v & 1 ? 1 : 8, WIDTH, b->bytes, 0, out);
    for (int x = 0; x < WIDTH; x++) assert_true(out[x] == h(20007.0f));
    kv_coded_size s = c.format->size(&c.is, v & 1 ? 1 : 8, WIDTH);
    for (size_t i = s.metadata; i < b->size; i++)
      assert_int_equal(b->bytes[i], 0);
  }
  free(b);
}

/* Which of {minimum, maximum} the stored types hold. */
TEST(refused) {
  static const struct {
    float lo, hi;
    bool plain, fp16; /* fit the fp32 rule, the fp16 rule */
  } at[] = {
      {-1, 1, true, true},
      {-60000, 1, true, true},
      {-70000, 1, false, false},
      {0, 70000, true, false},      /* 70000 is no half, 70000 / 3 is */
      {-40000, 40000, true, false}, /* nor is the range of 80000 */
      {0, 65504, true, true},       /* though 3 * h(65504 / 3) = 65520 */
      {0, 300000, false, false},
      {-3e38f, 3e38f, false, false},
  };
  block *b = malloc(sizeof *b);
  assert_non_null(b);
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    for (int v = 0; v < 4; v++) {
      coding c = {v & 1 ? &kv_format_token : &kv_format_channel,
                  {2, 8, (v & 2) != 0}};
      fill(b, 0x1p-2f, true);
      b->x[0][80] = at[i].lo;
      b->x[v & 1 ? 0 : 3][v & 1 ? 84 : 80] = at[i].hi;
      bool fits = encode(&c, v & 1 ? 1 : 8, WIDTH, b);
      assert_int_equal(fits, v & 2 ? at[i].fp16 : at[i].plain);
    }
  free(b);
}

/* A channel's codes do not depend on where the channel stands or on others. */
TEST(apart) {
  coding c = {&kv_format_channel, {2, 16, 0}};
  block *a = malloc(sizeof *a), *b = malloc(sizeof *b);
  float x[WIDTH], y[WIDTH];
  assert_non_null(a);
  assert_non_null(b);
  fill(a, 1, false);
  memcpy(b, a, sizeof *b);
  for (int m = 0; m < ROWS; m++) {
    b->row[m] = b->x[m];
    for (int i = 0; i < 70; i++) b->x[m][i] = a->x[m][69 - i];
  }
  assert_true(encode(&c, 16, 70, a) && encode(&c, 16, 70, b));
  for (int m = 0; m < 16; m++) {
    decode(&c, 16, 70, a->bytes, m, x);
    decode(&c, 16, 70, b->bytes, m, y);
    for (int i = 0; i < 70; i++) assert_true(x[i] == y[69 - i]);
  }
  free(a);
  free(b);
}

int main(void) { return tests_run("format", NULL, NULL); }
