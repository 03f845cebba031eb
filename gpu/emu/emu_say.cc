/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch's message about a race: which threads, where in the code, on which
 * bytes. addr2line of binutils finds the lines; without it, or with
 * KV_WATCH_LINES=no, places are a file and an offset in it.
 */
#include "gpu/emu/emu_context.h"

#ifdef KV_WATCH

#  include <dlfcn.h>
#  include <stdio.h>
#  include <stdlib.h>

namespace {

enum { ROOM = 400, CALLS = 4 };

/* "../../gpu/lane/keys.cuh:31 (discriminator 2)" is gpu/lane/keys.cuh:31. */
char *shorter(char *line) {
  static const char *const rooms[] = {"gpu/", "ref/", "tests/"};
  char *end = strpbrk(line, " \n"), *from = nullptr;
  if (end) *end = 0;
  for (const char *room : rooms)
    for (char *at = strstr(line, room); at; at = strstr(at + 1, room))
      if ((at == line || at[-1] == '/') && at > from) from = at;
  return from ? from : line;
}

/* The line, and those into which its function was put. */
bool lines(const char *file, uintptr_t offset, char *out) {
  char command[ROOM], line[ROOM];
  size_t used = 0;
  const char *asked = getenv("KV_WATCH_LINES");
  if (asked && strcmp(asked, "no") == 0) return false;
  snprintf(command, sizeof command, "addr2line -i -e '%.300s' %#zx 2>/dev/null",
           file, (size_t)offset);
  FILE *from = popen(command, "r");
  if (!from) return false;
  for (int i = 0; i < CALLS && fgets(line, sizeof line, from); i++) {
    if (line[0] == '?') break;
    int n = snprintf(out + used, ROOM - used, "%s%s", i ? " in " : "",
                     shorter(line));
    used += n > 0 && used + (size_t)n < ROOM ? (size_t)n : 0;
  }
  pclose(from);
  return used > 0;
}

/* `where` is the instruction after a call. */
void place(const void *where, char *out) {
  Dl_info in;
  snprintf(out, ROOM, "%p", where);
  if (!where || !dladdr(where, &in)) return;
  uintptr_t offset = (uintptr_t)where - (uintptr_t)in.dli_fbase;
  if (lines(in.dli_fname, offset - 1, out)) return;
  const char *name = strrchr(in.dli_fname, '/');
  snprintf(out, ROOM, "%.300s+%#zx", name ? name + 1 : in.dli_fname,
           (size_t)offset);
}

/* One warp that is not the thread's own. */
int warp_of(const kv_emu_race *r) {
  unsigned others = kv_emu_trace_warps(r->before);
  if (!r->blocks) others &= ~(1u << r->thread / 32);
  int last = kv_emu_trace_thread(r->before) / 32;
  return others >> last & 1 ? last : __builtin_ctz(others);
}

void other(const kv_emu_context *c, const kv_emu_race *r, char *out) {
  dim3 g = c->launch->grid;
  uint64_t all = (uint64_t)g.x * g.y * g.z;
  uint64_t b = c->reverse ? all - 1 - r->block : r->block;
  int warp = warp_of(r), thread = kv_emu_trace_thread(r->before);
  int n = snprintf(out, ROOM, "warp %d", warp);
  if (thread / 32 == warp) n = snprintf(out, ROOM, "thread %d", thread);
  if (!r->blocks) return;
  snprintf(out + n, ROOM - (size_t)n, " of block %u,%u,%u", (unsigned)(b % g.x),
           (unsigned)(b / g.x % g.y), (unsigned)(b / g.x / g.y));
}

} // namespace

void kv_emu_races_say(kv_emu_context *c, const kv_emu_race *r) {
  static const char *const does[] = {"reads", "writes", "changes", "looks at"};
  static const char *const did[] = {"read", "wrote", "changed", "looked at"};
  char who[ROOM], here[ROOM], there[ROOM];
  other(c, r, who);
  place(r->where, here);
  place(r->was, there);
  kv_emu_break(c,
               "a race: thread %d %s %zu bytes of %s memory (%p) at %s; %s %s "
               "them at %s, and no %s is between",
               r->thread, does[r->kind], r->n, r->shared ? "shared" : "global",
               r->at, here, who, did[r->other], there,
               r->blocks ? "fence" : "barrier");
}

#endif
