/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain integer formulas that decide, for C and for CUDA: both twins of a
 * method call the same text. No floats, no memory, total on what is stated.
 */
#ifndef KV_REF_FORMULA_H
#define KV_REF_FORMULA_H

#include "ref/ground/arith.h"
#include <stdbool.h>

/* One step of splitmix64. */
KV_FN uint64_t kv_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* The share p20 * 2^-20 of a mass (arithmetic 4), exact for mass < 2^62. */
KV_FN int64_t kv_share_of(int64_t mass, int32_t p20) {
  return (mass >> 20) * p20 + (((mass & 0xfffff) * p20) >> 20);
}

/* Entries kept past the window in layer l (PyramidKV's integer schedule);
 * n: tokens of the prompt. Sets *all when the layer keeps everything. */
KV_FN int kv_pyramid(int capacity, int window, int layers, int l, int n,
                     int beta, bool *all) {
  int base = capacity - window, min = base / beta, max = 2 * base - min;
  *all = n < capacity;
  if (*all || n < 2 * base || layers == 1) return base;
  if (max >= n - window) {
    max = n - window;
    min = 2 * base - max;
  }
  return max - l * ((max - min) / (layers - 1));
}

/* A straight line from max (layer 0) to 2 base - max, rounded so that layers
 * l and layers - 1 - l share 2 base: the sum of all is layers * base. */
KV_FN int kv_pyramid_exact(int max, int base, int layers, int l) {
  int mirror = layers - 1 - l, lower = l < mirror ? l : mirror, b;
  int64_t fall = 2 * ((int64_t)max - base);
  if (l == mirror) return base;
  b = max - (int)(lower * fall / (layers - 1));
  return l < mirror ? b : 2 * base - b;
}

#endif
