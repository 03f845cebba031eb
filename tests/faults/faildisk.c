/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that fills up on purpose. Preloaded into a program, it counts the
 * calls that change a regular file and fails one of them.
 *
 *   KV_FULL_AT=N     the N-th call fails with ENOSPC, and all that follow,
 *                    for the disk stays full; a write is cut short first
 *   KV_FULL_ONCE=1   only the N-th (somebody frees space at once)
 *   KV_FULL_LEFT=N   the disk says that N bytes are free
 *   KV_FULL_COUNT=F  how many there were is written to the file F at exit
 *
 * stdio writes without passing here: /dev/full and a limit on the size of
 * files test that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static long fail_at, once;
static atomic_long seen;

static long number(const char *name) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
  fail_at = number("KV_FULL_AT");
  once = number("KV_FULL_ONCE");
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("KV_FULL_COUNT");
  long n = atomic_load(&seen);
  FILE *f = path ? fopen(path, "w") : NULL;
  if (!f) return;
  fprintf(f, "%ld\n", n);
  fclose(f);
}

/* Memory that processes share (libomp registers itself there) is no disk. */
static int is_memory(int fd) {
  char link[64], path[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path);
  return n > 9 && memcmp(path, "/dev/shm/", 9) == 0;
}

/* -1: go on; else how many of these bytes still fit. */
static ssize_t fits(int fd, size_t bytes) {
  struct stat st;
  if (fstat(fd, &st) || !S_ISREG(st.st_mode) || is_memory(fd)) return -1;
  long n = atomic_fetch_add(&seen, 1) + 1;
  if (fail_at == 0 || n < fail_at || (n > fail_at && once)) return -1;
  errno = ENOSPC;
  return n == fail_at ? (ssize_t)(bytes / 2) : 0;
}

static int full(int fd) { return fits(fd, 0) >= 0; }

#define NEXT(type, name, ...)                                                  \
  static type (*next)(__VA_ARGS__);                                            \
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *from, size_t n) {
  NEXT(ssize_t, "write", int, const void *, size_t);
  ssize_t room = fits(fd, n);
  if (room == 0 && n > 0) return -1;
  return next(fd, from, room > 0 ? (size_t)room : n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
  NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t);
  ssize_t room = fits(fd, n);
  if (room == 0 && n > 0) return -1;
  return next(fd, from, room > 0 ? (size_t)room : n, at);
}

ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
  NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  ssize_t room = fits(fd, n);
  if (room == 0 && n > 0) return -1;
  return next(fd, from, room > 0 ? (size_t)room : n, at);
}

int fsync(int fd) {
  NEXT(int, "fsync", int);
  return full(fd) ? -1 : next(fd);
}

int fdatasync(int fd) {
  NEXT(int, "fdatasync", int);
  return full(fd) ? -1 : next(fd);
}

/* Making a file shorter needs no room. */
static int grows(int fd, off_t n) {
  struct stat st;
  return fstat(fd, &st) == 0 && n > st.st_size;
}

int ftruncate(int fd, off_t n) {
  NEXT(int, "ftruncate", int, off_t);
  return grows(fd, n) && full(fd) ? -1 : next(fd, n);
}

int ftruncate64(int fd, off64_t n) {
  NEXT(int, "ftruncate64", int, off64_t);
  return grows(fd, n) && full(fd) ? -1 : next(fd, n);
}

int posix_fallocate(int fd, off_t at, off_t n) {
  NEXT(int, "posix_fallocate", int, off_t, off_t);
  return full(fd) ? ENOSPC : next(fd, at, n);
}

int statvfs(const char *path, struct statvfs *disk) {
  NEXT(int, "statvfs", const char *, struct statvfs *);
  int rc = next(path, disk);
  if (getenv("KV_FULL_LEFT"))
    disk->f_bavail = (fsblkcnt_t)number("KV_FULL_LEFT");
  if (getenv("KV_FULL_LEFT")) disk->f_frsize = 1;
  return rc;
}
