/* SPDX-License-Identifier: Apache-2.0
 *
 * Included before each kernel that is compiled for the executor, by its
 * compiler's option: where kv_fma (ref/ground/arith.h) would call the library,
 * which is so on x86-64 unless the build asks for an instruction set, it uses
 * the processor's instruction if there is one. Of long prompts the calls,
 * around which no register lives, were a third of a kernel's time. The bits are
 * the same: both round a * b + c once.
 *
 * It also counts the calls. They are counted in the source, so the number does
 * not depend on the compiler, and costs no measurable time.
 */
#ifndef KV_GPU_EMU_FMA_H
#define KV_GPU_EMU_FMA_H

#include "gpu/emu/emu_words.h"

#if defined __x86_64__ && !defined __FMA__
extern const bool kv_emu_has_fma; /* gpu/emu/emu.cc */
#endif

static inline float kv_emu_fma(float a, float b, float c) {
  KV_EMU_DONE(fmas);
#if defined __x86_64__ && !defined __FMA__
  if (kv_emu_has_fma) {
    __asm__("vfmadd231ss %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
  }
#endif
  return __builtin_fmaf(a, b, c);
}
#define __builtin_fmaf kv_emu_fma

#endif
