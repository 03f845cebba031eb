/* SPDX-License-Identifier: Apache-2.0
 *
 * For kernels in a build with the watch (gpu/emu/emu_races.h): memcpy, memmove
 * and memset as macros whose accesses the watch records, with the C library's
 * arguments and values. gcc and clang before 15 do not instrument calls of
 * these functions. Calls with a small constant size become loads and stores,
 * which are instrumented.
 */
#ifndef KV_GPU_EMU_LIBC_H
#define KV_GPU_EMU_LIBC_H

#include <stddef.h>
#include <string.h>

/* The same functions, recorded: gpu/emu/emu_hooks.cc. */
extern "C" {
void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memset(void *at, int byte, size_t n);
}

/* Is n so small that the compiler makes loads and stores of it? */
#define KV_EMU_FEW(n) (__builtin_constant_p(n) && (n) <= 16)
#define memcpy(to, from, n)                                                    \
  (KV_EMU_FEW(n) ? __builtin_memcpy(to, from, n) : __tsan_memcpy(to, from, n))
#define memmove(to, from, n)                                                   \
  (KV_EMU_FEW(n) ? __builtin_memmove(to, from, n) : __tsan_memmove(to, from, n))
#define memset(at, byte, n)                                                    \
  (KV_EMU_FEW(n) ? __builtin_memset(at, byte, n) : __tsan_memset(at, byte, n))

#endif
