/* SPDX-License-Identifier: Apache-2.0
 *
 * Large pages on Linux. Elsewhere, or if Linux has none, memory stays as it is.
 */
#include "ref/ground/large.h"
#include <stdint.h>
#include <sys/mman.h>

/* Since Linux 6.1; the C library of Debian 12 has no name for it yet. */
#ifndef MADV_COLLAPSE
#  define MADV_COLLAPSE 25
#endif

/* p rounded up, or down, to a multiple of a large page. */
static uintptr_t page_up(const void *p) {
  return ((uintptr_t)p + KV_LARGE_PAGE - 1) / KV_LARGE_PAGE * KV_LARGE_PAGE;
}
static uintptr_t page_down(const void *p) {
  return (uintptr_t)p / KV_LARGE_PAGE * KV_LARGE_PAGE;
}

#ifdef MADV_HUGEPAGE
/* Advises the system about the whole large pages within a block. */
static void advise(void *block, size_t bytes, int what) {
  uintptr_t a = page_up(block), z = page_down((char *)block + bytes);
  if (z > a) madvise((void *)a, z - a, what);
}

void kv_large_at_once(void *block, size_t bytes) {
  advise(block, bytes, MADV_HUGEPAGE);
}

void kv_large_once_full(void *block, size_t bytes) {
  advise(block, bytes, MADV_NOHUGEPAGE);
}

/* Collapse acts now; if it fails, the system may make large pages later. */
void kv_large_written(void *from, size_t bytes) {
  advise(from, bytes, MADV_HUGEPAGE);
  advise(from, bytes, MADV_COLLAPSE);
}
#else
void kv_large_at_once(void *block, size_t bytes) { (void)block, (void)bytes; }
void kv_large_once_full(void *block, size_t bytes) { (void)block, (void)bytes; }
void kv_large_written(void *from, size_t bytes) { (void)from, (void)bytes; }
#endif

void kv_large_filled(void *block, size_t from, size_t to) {
  uintptr_t before = page_down((char *)block + from);
  uintptr_t now = page_down((char *)block + to);
  if (now == before || now < KV_LARGE_PAGE + (uintptr_t)block) return;
  kv_large_written((void *)(now - KV_LARGE_PAGE), KV_LARGE_PAGE);
}
