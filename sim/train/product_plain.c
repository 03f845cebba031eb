/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of a program that was built without BLIS: sim/train/product.h. Rows
 * of b are added up, a panel of them at a time, so that they stay in the cache;
 * columns of b are copied to rows first. The sibling is product_blis.c.
 */
#include "sim/train/product.h"

#include <string.h>

enum { DEEP = 64, WIDE = 256 };

static void pack(long deep, long wide, kv_matrix b, float *out) {
  for (long x = 0; x < deep; x++)
    for (long j = 0; j < wide; j++)
      out[x * WIDE + j] = b.data[x * b.row + j * b.column];
}

static void panel(long m, long wide, long deep, kv_matrix a, const float *b,
                  long n, float *c) {
  for (long i = 0; i < m; i++)
    for (long x = 0; x < deep; x++) {
      float by = a.data[i * a.row + x * a.column];
      for (long j = 0; j < wide; j++) c[i * n + j] += by * b[x * WIDE + j];
    }
}

static long least(long a, long b) { return a < b ? a : b; }

void kv_product(long m, long n, long k, kv_matrix a, kv_matrix b, bool add,
                float *c) {
  float packed[DEEP * WIDE];
  if (!add) memset(c, 0, (size_t)(m * n) * sizeof *c);
  for (long x = 0; x < k; x += DEEP)
    for (long j = 0; j < n; j += WIDE) {
      long deep = least(DEEP, k - x), wide = least(WIDE, n - j);
      kv_matrix left = {a.data + x * a.column, a.row, a.column};
      kv_matrix right = {b.data + x * b.row + j * b.column, b.row, b.column};
      pack(deep, wide, right, packed);
      panel(m, wide, deep, left, packed, n, c + j);
    }
}

const char *kv_product_by(void) { return "a plain kernel"; }

bool kv_product_is_plain(void) { return true; }
