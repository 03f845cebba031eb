/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of ref/formats/block.h: every line of tests/blocks/NAME.tsv,
 * which tests/blocks/blocks.py computed from the formats' sources, to the bit.
 * A row is its blocks, one beside the other. Bytes are the formula's. A NaN is
 * refused in any place.
 */

#include "ref/formats/named.h"
#include "ref/kernels/kernels.h"
#include "tests/support/guarded.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 96, ROOM = 4 * WIDTH, GUARD = 16, LONG = 4096 };

/* By hand. bytes: of a block, scale included. error: of an element, at most,
 * over the largest magnitude A of its block. Of q5_1 and q4_1 half a step of a
 * range 2 A; of q5_0 and q4_0 a step, as 2 H - 1 is the top; of iq4_nl, which
 * may move its scale, the gap at its top; of e2m1 what saturates. */
static const struct {
  const char *name;
  int size, bytes;
  double error;
} of[] = {{"q8_0", 32, 34, 0.5 / 127},   {"q5_1", 32, 24, 1 / 31.},
          {"q5_0", 32, 22, 1 / 16.},     {"q4_1", 32, 20, 1 / 15.},
          {"q4_0", 32, 18, 1 / 8.},      {"iq4_nl", 32, 18, 1 / 7.},
          {"mxfp4", 32, 17, 1 / 4.},     {"fp4_e2m1", 16, 9, 1 / 4.},
          {"nvfp4", 16, 9, 1 / 5.},      {"nvfp4_4over6", 16, 9, 1 / 5.},
          {"fp8_e4m3", 16, 16, 1 / 16.}, {"fp8_e5m2", 16, 16, 1 / 8.}};
enum { NAMES = sizeof of / sizeof *of };

static kv_blocked named(const char *name) {
  const kv_named_format *f = kv_named_format_at(kv_named_format_find(name));
  assert_ptr_equal(f->format, &kv_format_block);
  return f->block;
}

/* Codes and reads n elements; false: they cannot be coded. */
static bool again(const kv_blocked *c, int n, const float *x, uint8_t *block,
                  float *out) {
  kv_coded_size s = kv_format_block.size(c, 1, n);
  size_t bytes = s.codes + s.metadata;
  assert_true(bytes + GUARD <= ROOM);
  memset(block, 0x5a, ROOM);
  bool fits = kv_format_block.encode(c, 1, n, &x, block);
  for (size_t i = 0; i < GUARD; i++) assert_int_equal(block[bytes + i], 0x5a);
  if (fits) kv_format_block.decode(kv_kernels_best(), c, 1, n, block, 0, out);
  return fits;
}

/* --- the files ----------------------------------------------------------- */

/* Reads numbers of 8 digits; returns how many. */
static int words(const char *text, float *x) {
  int n = 0, used = 0;
  unsigned u;
  for (; sscanf(text, "%8x%n", &u, &used) == 1; text += used)
    x[n++] = kv_float(u);
  return n;
}

static void hex(size_t n, const uint8_t *byte, char *out) {
  *out = 0;
  for (size_t i = 0; i < n; i++) sprintf(out + 2 * i, "%02x", byte[i]);
}

/* Codes x again: the bytes as in a file; out: what is read. */
static bool coded(const kv_blocked *c, int n, const float *x, char *bytes,
                  float *out) {
  uint8_t block[ROOM];
  bool fits = again(c, n, x, block, out);
  kv_coded_size s = kv_format_block.size(c, 1, n);
  hex(fits ? s.codes + s.metadata : 0, block, bytes);
  return fits;
}

/* what, x, bytes, x^, bytes of x^ or "same". */
static void check_line(const char *name, const kv_blocked *c, char *line) {
  char *field[5] = {line, "", "", "", ""}, bytes[2 * ROOM], back[2 * ROOM];
  float x[WIDTH], read[WIDTH], out[WIDTH], twice[WIDTH];
  for (int i = 1; i < 5; i++) {
    char *tab = strchr(field[i - 1], '\t');
    if (!tab) break;
    *tab = 0;
    field[i] = tab + 1;
  }
  int n = words(field[1], x);
  bool fits = coded(c, n, x, bytes, out);
  assert_true(n > 0);
  if (strcmp(fits ? bytes : "refused", field[2]) != 0)
    fail_msg("%s, %s: %s, not %s", name, field[0], bytes, field[2]);
  if (!fits) return;
  assert_int_equal(words(field[3], read), n);
  if (memcmp(out, read, (size_t)n * sizeof *out) != 0)
    fail_msg("%s, %s: read otherwise", name, field[0]);
  coded(c, n, out, back, twice);
  const char *want = strcmp(field[4], "same") == 0 ? bytes : field[4];
  if (strcmp(back, want) != 0)
    fail_msg("%s, %s, coded again: %s", name, field[0], back);
}

TEST(files) {
  const char *top = getenv("top_srcdir");
  char path[512], line[LONG];
  for (int i = 0; i < NAMES; i++) {
    int lines = 0;
    kv_blocked c = named(of[i].name);
    if (kv_block_scaled(&c)) c.whole = 0.003f;
    snprintf(path, sizeof path, "%s/tests/blocks/%s.tsv", top ? top : "..",
             of[i].name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); lines++) {
      line[strcspn(line, "\n")] = 0;
      if (*line != '#') check_line(of[i].name, &c, line);
    }
    fclose(file);
    assert_true(lines >= 19);
  }
}

/* --- laws ---------------------------------------------------------------- */

static uint32_t seed = 7;

/* In (-2, 2), of 24 bits. */
static void fill(float *x) {
  for (int i = 0; i < WIDTH; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)((int32_t)(seed >> 8) - 0x800000) * 0x1p-22f;
  }
}

TEST(sizes) {
  assert_null(kv_named_format_at(11 + NAMES + 1)); /* here are all of them */
  for (int i = 0; i < NAMES; i++) {
    kv_blocked c = named(of[i].name);
    kv_coded_size s = kv_format_block.size(&c, 1, WIDTH);
    assert_int_equal(s.codes + s.metadata, WIDTH / of[i].size * of[i].bytes);
    assert_int_equal(kv_format_block.members(&c), 1);
  }
}

/* And some element comes near the bound, or it says nothing. */
TEST(error_within_bound) {
  float x[WIDTH], y[WIDTH];
  uint8_t block[ROOM];
  for (int i = 0; i < NAMES; i++) {
    kv_blocked c = named(of[i].name);
    double worst = 0;
    for (int turn = 0; turn < 400; turn++) {
      fill(x);
      for (int j = 0; j < WIDTH; j++) x[j] *= turn % 3 ? 1 : x[j];
      assert_true(again(&c, WIDTH, x, block, y));
      for (int j = 0; j < WIDTH; j++) {
        int size = kv_block_size(&c), first = j - j % size;
        double most = 0, off = fabs((double)y[j] - (double)x[j]);
        for (int k = first; k < first + size; k++)
          most = fmax(most, fabs((double)x[k]));
        worst = fmax(worst, (off - most * 0x1p-11 - 0x1p-9) / most);
      }
    }
    if (worst > of[i].error || worst < of[i].error / 3)
      fail_msg("%s: an error of %g times the largest", of[i].name, worst);
  }
}

/* No block of a row knows the others; the last may be shorter. */
TEST(blocks_apart) {
  float x[WIDTH], y[WIDTH], z[WIDTH];
  uint8_t block[ROOM];
  fill(x);
  for (int i = 0; i < NAMES; i++)
    for (int width = WIDTH - 17; width <= WIDTH; width++) {
      kv_blocked c = named(of[i].name);
      assert_true(again(&c, width, x, block, y));
      int size = kv_block_size(&c);
      for (int at = 0; at < width; at += size) {
        int n = width - at < size ? width - at : size;
        assert_true(again(&c, n, x + at, block, z));
        assert_memory_equal(y + at, z, (size_t)n * sizeof *z);
      }
    }
}

TEST(not_finite) {
  static const float bad[] = {NAN, -INFINITY, INFINITY};
  float x[WIDTH], y[WIDTH];
  uint8_t block[ROOM];
  for (int i = 0; i < NAMES; i++)
    for (int at = 0; at < 3 * WIDTH; at += 5) {
      kv_blocked c = named(of[i].name);
      fill(x);
      x[at % WIDTH] = bad[at / WIDTH];
      assert_false(again(&c, WIDTH, x, block, y));
    }
}

/* A reciprocal of 6 one unit lower gives another scale of nvfp4: 7.125 / 6 is
 * amid two numbers of e4m3. */
TEST(reciprocal) {
  float x[16] = {7.125f}, y[16], low = kv_float(kv_bits(kv_div(1, 6)) - 1);
  uint8_t block[ROOM];
  kv_blocked c = named("nvfp4");
  assert_true(again(&c, 16, x, block, y));
  assert_int_equal(block[0], 0x3a); /* 1.25, the even one */
  assert_int_equal(kv_to_f8(kv_mul(7.125f, low), 3, 7, 0x7e), 0x39);
}

/* --- kernels ------------------------------------------------------------- */

enum { ROWS = 70, WIDEST = 512, ALL = ROWS * WIDEST };
static float number[ALL], query[4 * WIDEST], weight[4 * ROWS];

/* Rows with small and large blocks, zero blocks and a scale that is stored as
 * 0, each at the end of memory; number: what format block reads. */
static void make_rows(const kv_blocked *c, int width, const void **row) {
  kv_coded_size s = kv_format_block.size(c, 1, width);
  for (int j = 0; j < ROWS; j++) {
    float x[WIDEST];
    const float *from = x;
    for (int i = 0; i < width; i += WIDTH)
      fill(i + WIDTH <= WIDEST ? x + i : x + WIDEST - WIDTH);
    for (int i = 0; i < width; i++)
      x[i] *= (j + i / 16) % 5 ? 1 : (j + i / 32) % 3 ? 1e-8f : 0;
    uint8_t *at = (uint8_t *)last(j % 8, (size_t)(1 + j / 8) * 1024) + 1024 -
                  s.codes - s.metadata;
    assert_true(kv_format_block.encode(c, 1, width, &from, at));
    kv_format_block.decode(kv_kernels_best(), c, 1, width, at, 0,
                           number + j * width);
    row[j] = at;
  }
}

static void check_kernels(const kv_kernels *k, const kv_block_rows *c,
                          int width, int m, const void *const *row) {
  static float s[4 * ROWS], a[4 * WIDEST];
  float *pack = last(8, sizeof(float) * KV_PACK * (size_t)width);
  for (int i = 0; i < m * width; i++) a[i] = query[i];
  k->block_logits(m, ROWS, width, query, (size_t)width, row, c, 0.1f, s, ROWS,
                  pack);
  k->block_weigh(m, ROWS, width, weight, ROWS, row, c, a);
  for (int h = 0; h < m; h++) {
    const float *q = query + h * width, *p = weight + h * ROWS;
    for (int j = 0; j < ROWS; j++) {
      float dot = 0;
      for (int x = 0; x < width; x++)
        dot = fmaf(q[x], number[j * width + x], dot);
      dot = kv_add(kv_mul(dot, 0.1f), 0);
      assert_int_equal(kv_bits(s[h * ROWS + j]), kv_bits(dot));
    }
    for (int x = 0; x < width; x++) {
      float sum = q[x];
      for (int j = 0; j < ROWS; j++)
        sum = fmaf(p[j], number[j * width + x], sum);
      assert_int_equal(kv_bits(a[h * width + x]), kv_bits(sum));
    }
  }
}

/* The kernels that read rows in place give the bits of rows read first. Sums
 * that begin with -0 show the sign of a zero. */
TEST(kernels) {
  const void *row[ROWS];
  int suited = 0;
  for (int i = 0; i < 4 * WIDEST; i += WIDTH)
    fill(i + WIDTH <= 4 * WIDEST ? query + i : query + 4 * WIDEST - WIDTH);
  for (int i = 0; i < 4 * ROWS; i++) weight[i] = query[i] > 0 ? query[i] : 0;
  for (int i = 0; i < 4 * WIDEST; i += 3) query[i] = i % 2 ? -0.0f : 0;
  for (int i = 0; i < 2 * NAMES; i++)
    for (int width = 32; width <= WIDEST; width += width < 128 ? 16 : 96) {
      kv_blocked c = named(of[i / 2].name);
      if (i % 2 && kv_block_scaled(&c)) c.whole = 0.003f;
      kv_block_rows of_row;
      if (!kv_block_in_place(&c, width, &of_row)) continue;
      make_rows(&c, width, row);
      for (int s = 0; s < n_sets; s++)
        for (int m = 1; m <= 4; m++, suited++)
          check_kernels(sets[s], &of_row, width, m, row);
    }
  assert_true(suited > 8 * 2 * 4);
}

static int open_memory(void **state) {
  guarded_open();
  kv_float_ground();
  return find_sets(state);
}

int main(void) { return tests_run("block", open_memory, NULL); }
