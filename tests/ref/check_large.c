/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of large pages: bytes stay what they are, no memory is taken that was
 * not written, and where the system has such pages, every whole one of what was
 * written is there.
 */
#include "ref/ground/err.h"
#include "ref/ground/large.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROW = 1000, ROOM = 6 * KV_LARGE_PAGE };

/* Bytes of this process on large pages; -1: the system does not say. */
static long on_large(void) {
  long kib = -1;
  char line[256];
  FILE *f = fopen("/proc/self/smaps_rollup", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "AnonHugePages: %ld", &kib) == 1) break;
  if (f) fclose(f);
  return kib < 0 ? kib : kib * 1024;
}

/* Are there large pages to be had? Asked of memory of our own. */
static bool has_large(void) {
  char *p = aligned_alloc(KV_LARGE_PAGE, KV_LARGE_PAGE);
  assert_non_null(p);
  long before = on_large();
  memset(p, 1, KV_LARGE_PAGE);
  kv_large_written(p, KV_LARGE_PAGE);
  bool has = before >= 0 && on_large() > before;
  free(p);
  return has;
}

static size_t resident(void *block, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *in = malloc(bytes / page);
  size_t n = 0;
  assert_non_null(in);
  assert_int_equal(mincore(block, bytes, (void *)in), 0);
  for (size_t i = 0; i < bytes / page; i++) n += in[i] & 1;
  free(in);
  return n * page;
}

static void check_bytes(const unsigned char *block, size_t written) {
  for (size_t i = 0; i < written; i++)
    if (block[i] != (unsigned char)(i / ROW * 7 + i)) fail_msg("byte %zu", i);
  for (size_t i = written; i < ROOM; i += 4096) assert_int_equal(block[i], 0);
}

static size_t write_row(unsigned char *block, size_t at) {
  for (size_t i = at; i < at + ROW; i++)
    block[i] = (unsigned char)(i / ROW * 7 + i);
  return at + ROW;
}

/* Rows as a slab takes them: a page is asked for once it is full. */
TEST(row_by_row) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const bool has = has_large();
  unsigned char *block = kv_zalloc_large(ROOM, 1);
  size_t at = 0;
  assert_non_null(block);
  assert_true((uintptr_t)block % KV_LARGE_PAGE == 0);
  kv_large_once_full(block, ROOM);
  long before = on_large();
  while (at < 5 * (size_t)KV_LARGE_PAGE / 2) {
    at = write_row(block, at);
    kv_large_filled(block, at - ROW, at);
    assert_true(at % (50 * ROW) || resident(block, ROOM) <= at + page);
  }
  assert_true(!has || on_large() - before == 2L * KV_LARGE_PAGE);
  check_bytes(block, at);
  free(block);
}

/* All at once, from a place that is no page's begin. */
TEST(at_once) {
  const size_t from = ROW, page = (size_t)sysconf(_SC_PAGESIZE);
  const bool has = has_large();
  unsigned char *block = kv_zalloc_large(ROOM, 1);
  size_t at = 0;
  assert_non_null(block);
  kv_large_once_full(block, ROOM);
  while (at < 7 * (size_t)KV_LARGE_PAGE / 2) at = write_row(block, at);
  long before = on_large();
  kv_large_written(block + from, at - from);
  assert_true(resident(block, ROOM) <= at + page);
  assert_true(!has || on_large() - before == 2L * KV_LARGE_PAGE);
  check_bytes(block, at);
  free(block);
}

/* The first byte brings a whole one, unless a person has said never. */
TEST(first_byte) {
  char say[64] = "[never]";
  FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  unsigned char *block = kv_zalloc_large(ROOM, 1);
  assert_non_null(block);
  if (f && !fgets(say, sizeof say, f)) fail();
  if (f) fclose(f);
  kv_large_at_once(block, ROOM);
  long before = on_large();
  block[KV_LARGE_PAGE] = 1;
  if (!strstr(say, "[never]"))
    assert_int_equal(on_large() - before, KV_LARGE_PAGE);
  free(block);
}

int main(void) { return tests_run("large", NULL, NULL); }
