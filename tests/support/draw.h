/* SPDX-License-Identifier: Apache-2.0
 *
 * Pseudo-random numbers for tests, in C and C++: the same in every run. The
 * caller keeps the seed, which every call advances.
 */
#ifndef KV_TESTS_DRAW_H
#define KV_TESTS_DRAW_H

#include "ref/ground/formula.h"

/* 64 bits, by splitmix64. */
static inline uint64_t draw(uint64_t *seed) {
  uint64_t x = kv_mix(*seed);
  *seed += 0x9e3779b97f4a7c15u;
  return x;
}

/* A number from 0 to n - 1; n >= 1. */
static inline int draw_below(uint64_t *seed, int n) {
  return (int)(draw(seed) % (uint64_t)n);
}

#endif
