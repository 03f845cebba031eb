/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out on purpose. Preloaded into a program, it counts the
 * allocations made by the program itself, SQLite and jansson, and refuses
 * one of them. libc, ld.so, the OpenMP runtime and BLIS are left alone: they
 * end the process by design when they get nothing. What libc allocates for
 * its caller (strdup, fopen, ...) counts as the caller's.
 *
 *   KV_FAIL_AT=N     the N-th allocation fails, from 1
 *   KV_FAIL_STAY=1   and all that come after it
 *   KV_FAIL_COUNT=F  how many there were is written to the file F at exit
 *
 * Who called is told by the return address and the text of the loaded
 * objects; objects that are loaded later are not seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANGES = 64 };

static struct { uintptr_t start, end; } range[RANGES];
static int ranges;
static long fail_at, stay;
static atomic_long seen;
static atomic_int ready;

/* The program has no name in the list of objects. */
static int is_ours(const char *name) {
  static const char *const part[] = {"/libkvreplay", "/libjansson",
                                     "/libsqlite3"};
  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    if (strstr(name, part[i])) return 1;
  return *name == 0;
}

static int note_object(struct dl_phdr_info *o, size_t size, void *unused) {
  (void)size;
  (void)unused;
  for (int i = 0; is_ours(o->dlpi_name) && i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &o->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || ranges == RANGES)
      continue;
    range[ranges].start = o->dlpi_addr + p->p_vaddr;
    range[ranges].end = range[ranges].start + p->p_memsz;
    ranges++;
  }
  return 0;
}

static long number(const char *name) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
  dl_iterate_phdr(note_object, NULL);
  fail_at = number("KV_FAIL_AT");
  stay = number("KV_FAIL_STAY");
  atomic_store(&ready, 1);
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("KV_FAIL_COUNT");
  atomic_store(&ready, 0);
  int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
  if (fd < 0) return;
  dprintf(fd, "%ld\n", atomic_load(&seen));
  close(fd);
}

static int refused(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  int ours = 0;
  if (!atomic_load(&ready)) return 0;
  for (int i = 0; i < ranges && !ours; i++)
    ours = at >= range[i].start && at < range[i].end;
  if (!ours) return 0;
  long n = atomic_fetch_add(&seen, 1) + 1;
  if (fail_at == 0 || n < fail_at || (n > fail_at && !stay)) return 0;
  errno = ENOMEM;
  return 1;
}

/* The next definition after this one: libc's, or a sanitizer's. */
#define NEXT(type, name, ...)                                                  \
  static type (*next)(__VA_ARGS__);                                            \
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, name);                         \
  if (refused(__builtin_return_address(0))) return NULL

void *malloc(size_t n) {
  NEXT(void *, "malloc", size_t);
  return next(n);
}

void *calloc(size_t n, size_t size) {
  NEXT(void *, "calloc", size_t, size_t);
  return next(n, size);
}

void *realloc(void *p, size_t n) {
  NEXT(void *, "realloc", void *, size_t);
  return next(p, n);
}

void *aligned_alloc(size_t align, size_t n) {
  NEXT(void *, "aligned_alloc", size_t, size_t);
  return next(align, n);
}

char *strdup(const char *s) {
  NEXT(char *, "strdup", const char *);
  return next(s);
}

char *strndup(const char *s, size_t n) {
  NEXT(char *, "strndup", const char *, size_t);
  return next(s, n);
}

char *realpath(const char *restrict path, char *restrict out) {
  NEXT(char *, "realpath", const char *, char *);
  return next(path, out);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
  NEXT(FILE *, "fopen", const char *, const char *);
  return next(path, mode);
}

FILE *open_memstream(char **text, size_t *n) {
  NEXT(FILE *, "open_memstream", char **, size_t *);
  return next(text, n);
}

int posix_memalign(void **out, size_t align, size_t n) {
  static int (*next)(void **, size_t, size_t);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "posix_memalign");
  if (refused(__builtin_return_address(0))) return ENOMEM;
  return next(out, align, n);
}

/* Address space runs out too, also for a file. */
void *mmap(void *at, size_t n, int protect, int flags, int fd, off_t from) {
  static void *(*next)(void *, size_t, int, int, int, off_t);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "mmap");
  if (refused(__builtin_return_address(0))) return MAP_FAILED;
  return next(at, n, protect, flags, fd, from);
}
