/* SPDX-License-Identifier: Apache-2.0
 *
 * For kernels that are watched (gpu/emu/emu_races.h): the functions of the C
 * library that move bytes, seen. gcc and clang before 15 leave calls of them
 * as they are; those of a few bytes become loads and stores, which are seen.
 */
#ifndef KV_GPU_EMU_LIBC_H
#define KV_GPU_EMU_LIBC_H

#include <stddef.h>
#include <string.h>

extern "C" {
void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memset(void *at, int byte, size_t n);
}

#define KV_EMU_FEW(n) (__builtin_constant_p(n) && (n) <= 16)
#define memcpy(to, from, n)                                                    \
  (KV_EMU_FEW(n) ? __builtin_memcpy(to, from, n) : __tsan_memcpy(to, from, n))
#define memmove(to, from, n)                                                   \
  (KV_EMU_FEW(n) ? __builtin_memmove(to, from, n) : __tsan_memmove(to, from, n))
#define memset(at, byte, n)                                                    \
  (KV_EMU_FEW(n) ? __builtin_memset(at, byte, n) : __tsan_memset(at, byte, n))

#endif
