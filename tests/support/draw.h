/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers drawn for tests, in C and C++: the same in every run.
 */
#ifndef KV_TESTS_DRAW_H
#define KV_TESTS_DRAW_H

#include "ref/ground/formula.h"

/* splitmix64. */
static inline uint64_t draw(uint64_t *seed) {
  uint64_t x = kv_mix(*seed);
  *seed += 0x9e3779b97f4a7c15u;
  return x;
}

/* One of 0..n-1. */
static inline int draw_below(uint64_t *seed, int n) {
  return (int)(draw(seed) % (uint64_t)n);
}

#endif
