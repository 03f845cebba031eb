/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers for resampling: SplitMix64 (Steele, Lea, Flood 2014), only
 * integers, so that every machine draws the same. The state is one number,
 * which the caller sets to the seed.
 */
#ifndef KV_ANALYSIS_DRAW_H
#define KV_ANALYSIS_DRAW_H

#include <stdint.h>

/* The next 64 bits. */
static inline uint64_t kv_draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* A number from 0 to n - 1, n > 0, from the upper 32 of the next 64 bits; its
 * bias is below n / 2^32. */
static inline int kv_draw_below(uint64_t *state, int n) {
  return (int)((kv_draw(state) >> 32) * (uint64_t)n >> 32);
}

#endif
