/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors as sentences, and the allocation of zeroed memory.
 */
#include "ref/ground/err.h"
#include "ref/ground/large.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

kv_rc kv_fail(kv_err *e, kv_rc rc, const char *format, ...) {
  if (!e) return rc;
  char raw[2 * sizeof e->text];
  va_list args;
  va_start(args, format);
  vsnprintf(raw, sizeof raw, format, args);
  va_end(args);
  kv_plain(raw, sizeof e->text, e->text);
  e->rc = rc;
  return rc;
}

/* calloc would map large blocks as zero pages, but not align them to 64 bytes,
 * and an aligned address within a block could not be passed to free. So blocks
 * come from aligned_alloc. Only small ones are cleared here. */
static void *zalloc_at(size_t align, size_t count, size_t size) {
  if (size && count > (SIZE_MAX - 4095) / size) return NULL;
  size_t bytes = count * size;
  size_t whole = (bytes + 63) / 64 * 64;
  void *p = aligned_alloc(align, whole ? whole : 64);
  if (!p) return NULL;
  /* Pages of a fresh large block are zero, but a reused block's are not. Giving
   * them back to the kernel makes them zero without touching them. */
  uintptr_t a = ((uintptr_t)p + 4095) & ~(uintptr_t)4095;
  uintptr_t z = ((uintptr_t)p + whole) & ~(uintptr_t)4095;
  if (whole < 1 << 20 || madvise((void *)a, z - a, MADV_DONTNEED) != 0) {
    memset(p, 0, whole ? whole : 64);
    return p;
  }
  memset(p, 0, a - (uintptr_t)p);
  memset((void *)z, 0, (uintptr_t)p + whole - z);
  return p;
}

void *kv_zalloc(size_t count, size_t size) {
  return zalloc_at(64, count, size);
}

void *kv_zalloc_large(size_t count, size_t size) {
  bool holds = size && count >= 2 * (size_t)KV_LARGE_PAGE / size;
  return zalloc_at(holds ? KV_LARGE_PAGE : 64, count, size);
}

void kv_give_back(void *block, size_t bytes) {
  uintptr_t a = ((uintptr_t)block + 4095) & ~(uintptr_t)4095;
  uintptr_t z = ((uintptr_t)block + bytes) & ~(uintptr_t)4095;
  if (block && z > a && z - a >= 1 << 20)
    madvise((void *)a, z - a, MADV_DONTNEED);
}

kv_rc kv_no_memory(kv_err *e, const char *what, size_t bytes) {
  return kv_fail(e, KV_RESOURCE,
                 "not enough memory for %s (%zu bytes): use fewer methods, "
                 "fewer --jobs or a shorter trace",
                 what, bytes);
}
