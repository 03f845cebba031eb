/* SPDX-License-Identifier: Apache-2.0
 *
 * A spill: sim/replay/measure/spill.h. The file is unlinked as soon as it
 * exists, so nothing remains however the program ends.
 */
#define _GNU_SOURCE 1
#include "sim/replay/measure/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 1 << 16 }; /* no machine has larger pages */

static const char *folder(void) {
  const char *asked = getenv("TMPDIR");
  return asked && *asked ? asked : "/var/tmp";
}

/* A file with that many bytes reserved; -1: see errno. */
static int make_file(size_t bytes) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/kvreplay.XXXXXX", folder());
  if (n < 0 || (size_t)n >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0) return -1;
  unlink(path);
  int bad = posix_fallocate(fd, 0, (off_t)bytes);
  if (!bad) return fd;
  close(fd);
  errno = bad;
  return -1;
}

static kv_rc map_file(kv_spill *s, kv_err *e) {
  char show[256];
  int fd = make_file(s->bytes);
  void *at =
      fd < 0 ? MAP_FAILED
             : mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int why = errno;
  if (fd >= 0) close(fd);
  if (at != MAP_FAILED) {
    s->at = at;
    return KV_OK;
  }
  return kv_fail(e, KV_RESOURCE,
                 "%s lacks %zu bytes for measured values (%s); set TMPDIR to a "
                 "folder with more space, or give fewer methods at once",
                 kv_plain(folder(), sizeof show, show), s->bytes,
                 strerror(why));
}

kv_rc kv_spill_open(int slices, size_t bytes, kv_spill *s, kv_err *e) {
  size_t all = 0;
  *s = (kv_spill){.stride = (bytes + PAGE - 1) / PAGE * PAGE};
  if (bytes > SIZE_MAX / 2 ||
      __builtin_mul_overflow((size_t)slices, s->stride, &all))
    return kv_no_memory(e, "measured values", SIZE_MAX);
  s->bytes = all;
  s->file = all > KV_SPILL_MEMORY;
  kv_rc rc = KV_OK;
  if (s->file)
    rc = map_file(s, e);
  else if ((s->at = kv_zalloc(1, all)) == NULL)
    rc = kv_no_memory(e, "measured values", all);
  if (rc) *s = (kv_spill){0};
  return rc;
}

void kv_spill_close(kv_spill *s) {
  if (s->file)
    munmap(s->at, s->bytes);
  else
    free(s->at);
  *s = (kv_spill){0};
}

void *kv_spill_slice(const kv_spill *s, int i) {
  return s->at + (size_t)i * s->stride;
}

void kv_spill_put_away(const kv_spill *s, int i) {
  if (s->file) madvise(kv_spill_slice(s, i), s->stride, MADV_DONTNEED);
}
