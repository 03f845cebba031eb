/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for tests of kernels: arrays that end where an unmapped page begins,
 * so that a kernel that reads or writes past the last element crashes the test.
 * Nothing is freed; any failure fails the running test.
 */
#ifndef KV_TESTS_GUARDED_H
#define KV_TESTS_GUARDED_H

#include <sys/mman.h>

#include "tests/support/test.h"

enum {
  GUARDED_SLOT = 1 << 19, /* bytes of a slot, a piece of such memory */
  GUARDED_SLOTS = 12      /* slots */
};
static unsigned char *guarded_slot[GUARDED_SLOTS];

/* The address just past `size` new bytes, a multiple of 4096. */
static inline unsigned char *guarded(size_t size) {
  unsigned char *p = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  assert_int_equal(mprotect(p + size, 4096, PROT_NONE), 0);
  return p + size;
}

/* Makes the slots; call it once, before the two functions below. */
static inline void guarded_open(void) {
  for (int i = 0; i < GUARDED_SLOTS; i++)
    guarded_slot[i] = guarded(GUARDED_SLOT);
}

/* The last `bytes` bytes of a slot, 0 to GUARDED_SLOTS - 1. */
static inline void *last(int slot, size_t bytes) {
  assert_true(bytes <= GUARDED_SLOT);
  return guarded_slot[slot] - bytes;
}

/* n floats at the end of a slot, each from make(). */
static inline float *floats(int slot, size_t n, float (*make)(void)) {
  float *p = last(slot, 4 * n);
  for (size_t i = 0; i < n; i++) p[i] = make();
  return p;
}

#endif
