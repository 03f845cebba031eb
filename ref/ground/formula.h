/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer formulas that decide. A method in C and its CUDA twin share them, so
 * that both use the same code. No floats, no memory; defined for all stated
 * inputs.
 */
#ifndef KV_REF_FORMULA_H
#define KV_REF_FORMULA_H

#include "ref/ground/arith.h"
#include <stdbool.h>

/* One step of splitmix64: a pseudo-random number from x. */
KV_FN uint64_t kv_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* floor(mass * p20 * 2^-20): the share p20 * 2^-20 of a mass in fixed point
 * (arithmetic 4), for 0 <= p20 <= 2^20 and 0 <= mass < 2^62. */
KV_FN int64_t kv_share_of(int64_t mass, int32_t p20) {
  return (mass >> 20) * p20 + (((mass & 0xfffff) * p20) >> 20);
}

#endif
