/* SPDX-License-Identifier: Apache-2.0
 *
 * Halves (fp16) as floats, exactly. On a device it is the one instruction that
 * IEEE 754 defines, on the executor the integer code of ref/ground/arith.h; by
 * check_arith and the benchmark's check on a device they agree for all 65,536
 * halves but NaN. There the payloads may differ, and none gets here: a layer
 * with a number that is not finite is refused before it begins
 * (traces/trace/scan.c).
 */
#ifndef KV_GPU_HALF_H
#define KV_GPU_HALF_H

#include "gpu/block/launch.h"
#include "ref/ground/arith.h"

#ifdef __CUDA_ARCH__

KV_DEVICE float kv_half(uint16_t h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}

/* x rounded to a half (kv_grid_f16), as a float. */
KV_DEVICE float kv_half_grid(float x) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return kv_half(h);
}

/* Both halves of a word, the lower one first: without a shift. */
KV_DEVICE void kv_two_halves(uint32_t w, float *x) {
  asm("{ .reg .b16 a, b;\n\t"
      "mov.b32 {a, b}, %2;\n\t"
      "cvt.f32.f16 %0, a;\n\t"
      "cvt.f32.f16 %1, b; }"
      : "=f"(x[0]), "=f"(x[1])
      : "r"(w));
}

#else

KV_DEVICE float kv_half(uint16_t h) { return kv_from_f16(h); }

KV_DEVICE float kv_half_grid(float x) { return kv_grid_f16(x); }

KV_DEVICE void kv_two_halves(uint32_t w, float *x) {
  x[0] = kv_half((uint16_t)w);
  x[1] = kv_half((uint16_t)(w >> 16));
}

#endif
#endif
