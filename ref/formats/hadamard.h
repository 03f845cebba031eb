/* SPDX-License-Identifier: Apache-2.0
 *
 * The rotation of rows by a normalised Hadamard matrix, for C and CUDA
 * (ref/FORMATS.md, Prepared rows). A row is cut into blocks of n elements, n
 * the largest power of two that divides its width. In a block, stages h = 1, 2,
 * 4 .. n / 2 replace elements i and i + h by their sum and difference; then
 * each is multiplied by the binary32 nearest to 1 / sqrt(n).
 */
#ifndef KV_REF_FORMATS_HADAMARD_H
#define KV_REF_FORMATS_HADAMARD_H

#include "ref/ground/arith.h"

/* n of rows of `width` elements, width > 0. */
KV_FN int kv_hadamard_block(int width) { return width & -width; }

/* The factor of a block of n elements. */
KV_FN float kv_hadamard_factor(int n) {
  float f = 1;
  for (; n > 2; n /= 4) f = kv_mul(f, 0.5f);
  return n == 2 ? kv_mul(f, 0x1.6a09e6p-1f) : f;
}

/* Rotates a row in place. Twice is the row again, up to rounding. */
KV_FN void kv_hadamard(int width, float *row) {
  int n = kv_hadamard_block(width);
  float f = kv_hadamard_factor(n);
  for (int h = 1; h < n; h *= 2)
    for (int i = 0; i < width; i += 2 * h)
      for (int j = i; j < i + h; j++) {
        float a = row[j], b = row[j + h];
        row[j] = kv_add(a, b);
        row[j + h] = kv_sub(a, b);
      }
  for (int i = 0; i < width; i++) row[i] = kv_mul(row[i], f);
}

#endif
