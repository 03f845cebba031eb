/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point mode: ref/ground/float.h. What the mode must be is a table
 * of bits of one word, which holds all control registers of the machine.
 */
#include "ref/ground/float.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#  include <xmmintrin.h>

/* MXCSR: bit 15 FTZ, 13 and 14 the rounding mode, 7 to 12 masks of the traps,
 * 6 DAZ. Above it the x87 control word: 10 and 11 rounding, 8 and 9 precision,
 * 0 to 5 masks. */
enum { X87 = 16 };

static const struct {
  uint32_t bits, ground;
  const char *words;
} mode[] = {{0x8000, 0, "subnormal results flushed to zero"},
            {0x0040, 0, "subnormal operands taken as zero"},
            {0x6000, 0, "rounding not to nearest"},
            {0x1f80, 0x1f80, "exceptions that trap"},
            {0xf3fu << X87, 0x33fu << X87, "another x87 control word"}};

static uint32_t get(void) {
  uint16_t word;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return (uint32_t)word << X87 | (_mm_getcsr() & 0xffffu);
}

static void set(uint32_t to) {
  uint16_t word = (uint16_t)(to >> X87);
  _mm_setcsr(to & 0xffffu);
  __asm__ volatile("fldcw %0" : : "m"(word));
}
#elif defined(__aarch64__)

/* FPCR: bit 24 FZ, 22 and 23 rounding, 19 FZ16, 15 and 8 to 12 traps. */
static const struct {
  uint32_t bits, ground;
  const char *words;
} mode[] = {{1u << 24 | 1u << 19, 0, "subnormal numbers flushed to zero"},
            {3u << 22, 0, "rounding not to nearest"},
            {0x9f00, 0, "exceptions that trap"}};

static uint32_t get(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return (uint32_t)word;
}

static void set(uint32_t to) {
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)to));
}
#else
static const struct {
  uint32_t bits, ground;
  const char *words;
} mode[] = {{0, 0, ""}};

static uint32_t get(void) { return 0; }
static void set(uint32_t to) { (void)to; }
#endif

enum { PARTS = sizeof mode / sizeof *mode };

void kv_float_ground(void) {
  uint32_t is = get(), to = is;
  for (int i = 0; i < PARTS; i++) to = (to & ~mode[i].bits) | mode[i].ground;
  if (to != is) set(to);
}

const char *kv_float_astray(void) {
  uint32_t is = get();
  for (int i = 0; i < PARTS; i++)
    if ((is & mode[i].bits) != mode[i].ground) return mode[i].words;
  return NULL;
}
