/* SPDX-License-Identifier: Apache-2.0
 *
 * fp16 numbers (halves) as floats, by any one thread. On a device they are
 * conversion instructions, which IEEE 754 defines, on the executor the code of
 * ref/ground/arith.h; both agree except on NaN, whose payload may differ. A NaN
 * occurs only in a lane that has failed: a trace with one is refused.
 */
#ifndef KV_GPU_HALF_H
#define KV_GPU_HALF_H

#include "gpu/block/launch.h"
#include "ref/ground/arith.h"

#ifdef __CUDA_ARCH__

/* The value of the fp16 bits h. */
KV_DEVICE float kv_half(uint16_t h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}

/* x[0], x[1]: the halves in the lower and the upper 16 bits of w. */
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

KV_DEVICE void kv_two_halves(uint32_t w, float *x) {
  x[0] = kv_half((uint16_t)w);
  x[1] = kv_half((uint16_t)(w >> 16));
}

#endif
#endif
