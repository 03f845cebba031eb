/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hook leaves in its process: sim/run/laws/fence.h. Allocated or mapped
 * memory, threads, and closed files that were not its own. Finds nothing if
 * libc or the system does not report these.
 */
#include "sim/run/laws/fence_part.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A stack or a table of the loader may grow now and then. A hook that maps
 * memory and keeps it does so every time, so TIMES times are needed. */
enum { TIMES = 8, PAGE = 4096 };

static struct {
  size_t held, mapped;
  unsigned threads;
} before;
static int grew, statm = -1;

/* Bytes allocated by malloc; 0 if libc does not report them. */
static size_t held(size_t *arena) {
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
  struct mallinfo2 m = mallinfo2();
  *arena = m.arena + m.hblkhd;
  return m.uordblks + m.hblkhd;
#else
  *arena = 0;
  return 0;
#endif
}

/* Mapped bytes, except malloc's. */
static size_t mapped(size_t arena) {
  char text[64] = "";
  if (arena == 0 || statm < 0 || pread(statm, text, sizeof text - 1, 0) <= 0)
    return 0;
  size_t all = strtoul(text, NULL, 10) * PAGE;
  return all > arena ? all - arena : 0;
}

static unsigned threads(void) {
  struct stat st;
  return stat("/proc/self/task", &st) ? 0 : (unsigned)st.st_nlink;
}

void kv_fence_process_open(void) {
  grew = 0;
  if (statm < 0) statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

void kv_fence_process_before(void) {
  size_t arena;
  before.threads = threads();
  before.held = held(&arena);
  before.mapped = mapped(arena);
}

void kv_fence_process_after(void) {
  size_t arena, now = held(&arena);
  for (int f = STDIN_FILENO; f <= STDERR_FILENO; f++)
    if (fcntl(f, F_GETFD) < 0)
      kv_fence_found("hooks", "closes files that it did not open");
  if (threads() > before.threads)
    kv_fence_found("hooks", "starts a thread and leaves it running");
  if (now > before.held)
    kv_fence_found("hooks", "allocates memory and keeps it; take it from "
                            "at->work, or declare lane_state");
  size_t more = mapped(arena);
  if (before.mapped && more > before.mapped && ++grew >= TIMES)
    kv_fence_found("hooks", "maps memory and keeps it; take it from at->work, "
                            "or declare lane_state");
}
