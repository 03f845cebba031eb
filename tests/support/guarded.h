/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for tests of kernels: arrays that end at a page that faults, so that
 * who reads or writes behind the last element is seen. Include cmocka.h before.
 */
#ifndef KV_TESTS_GUARDED_H
#define KV_TESTS_GUARDED_H

#include <stddef.h>
#include <sys/mman.h>

enum { GUARDED_SLOT = 1 << 19, GUARDED_SLOTS = 12 };
static unsigned char *guarded_slot[GUARDED_SLOTS];

/* The end of `size` new bytes. */
static inline unsigned char *guarded(size_t size) {
  unsigned char *p = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  assert_int_equal(mprotect(p + size, 4096, PROT_NONE), 0);
  return p + size;
}

/* Call once, before `last`. */
static inline void guarded_open(void) {
  for (int i = 0; i < GUARDED_SLOTS; i++)
    guarded_slot[i] = guarded(GUARDED_SLOT);
}

/* The last `bytes` bytes of a slot. */
static inline void *last(int slot, size_t bytes) {
  assert_true(bytes <= GUARDED_SLOT);
  return guarded_slot[slot] - bytes;
}

/* n made floats, the last of a slot. */
static inline float *floats(int slot, size_t n, float (*make)(void)) {
  float *p = last(slot, 4 * n);
  for (size_t i = 0; i < n; i++) p[i] = make();
  return p;
}

#endif
