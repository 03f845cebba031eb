/* SPDX-License-Identifier: Apache-2.0
 *
 * The workspace between fences: sim/run/laws/fence.h.
 *
 *   from           next                          top       end
 *   mark take mark take mark | marked, if whole | records |
 *
 * A take is filled with junk that differs every time, because nothing promises
 * zeros. Marks and records need less than twice what is taken (a multiple of 64
 * bytes), so three times the workspace is enough.
 */
#include "sim/run/laws/fence_part.h"

#include <stdio.h>
#include <string.h>

enum { TIMES = 3 };

typedef struct take {
  char *at;
  size_t n;
} take;

/* Workspace of the hook that this thread runs. */
static _Thread_local struct {
  char *from, *next, *end;
  take *top;
  char *dirty; /* no marks before this; NULL: no marks */
  const char *base;
  bool whole;
} now;
static _Thread_local uint32_t turn;

static size_t padded(size_t n) { return (n + 63) / 64 * 64; }

static size_t hook_size(const kv_shape *shape, const kv_work *outer) {
  size_t rest = outer->size - KV_WORK(shape->n_tokens) - 2 * KV_FENCE;
  size_t extra = (TIMES - 1) * KV_WORK(shape->n_tokens);
  return (rest - extra) / TIMES + KV_WORK(shape->n_tokens);
}

/* Without KV_WORK, which the engine adds. */
size_t kv_fence_room(const kv_shape *shape, size_t work) {
  size_t extra = (TIMES - 1) * KV_WORK(shape->n_tokens);
  return TIMES * work + extra + 2 * KV_FENCE;
}

/* A pseudo-random byte: its period is unlike that of any hook. */
static unsigned char junk(void) {
  turn = turn * 1664525u + 1013904223u;
  return (unsigned char)(turn >> 24);
}

static void *give(kv_work *w, size_t n) {
  size_t bytes = n <= w->size ? padded(n) : SIZE_MAX;
  if (bytes > w->size - w->used)
    kv_fence_found("hooks",
                   "takes %zu bytes of a workspace that has %zu left; "
                   "needs.work must cover what hooks take",
                   n, w->size - w->used);
  w->used += bytes;
  if (n == 0) return now.next;
  *--now.top = (take){now.next, n};
  memset(now.next, junk(), n);
  kv_fence_mark(now.next + n, bytes - n + KV_FENCE);
  now.next += bytes + KV_FENCE;
  return now.top->at;
}

void kv_fence_takes_begin(const kv_shape *shape, const kv_work *outer,
                          bool whole, kv_work *inner) {
  char *from = outer->base + outer->used, *end = outer->base + outer->size;
  end -= (uintptr_t)end % sizeof(take);
  if (!whole || now.base != outer->base) now.dirty = whole ? end : NULL;
  now.base = outer->base;
  now.whole = whole;
  now.from = from;
  now.next = from + KV_FENCE;
  now.end = end;
  now.top = (take *)(void *)end;
  if (whole && now.dirty > from)
    kv_fence_mark(from, (size_t)(now.dirty - from));
  kv_fence_mark(from, KV_FENCE);
  *inner = (kv_work){.base = now.next,
                     .size = hook_size(shape, outer),
                     .used = outer->used,
                     .take = give};
}

/* Reports a changed byte between two takes, and blames the take whose end or
 * beginning is nearer. */
static void broken(const take *before, const char *at, const char *next) {
  const take *end = (take *)(void *)now.end;
  int number = (int)(end - before);
  bool nearer = before > now.top && before < end &&
                next - at < at - (before->at + before->n);
  if (now.top == end)
    kv_fence_found("hooks", "writes to a workspace from which it took nothing");
  if (before == end || nearer)
    kv_fence_found("hooks", "writes %zu bytes before take %d of the workspace",
                   (size_t)(next - at), number + 1);
  kv_fence_found("hooks",
                 "writes to byte %zu of take %d of the workspace, which has "
                 "%zu",
                 (size_t)(at - before->at), number, before->n);
}

void kv_fence_takes_end(void) {
  const take *end = (take *)(void *)now.end;
  size_t bad = kv_fence_marked(now.from, KV_FENCE);
  if (bad < KV_FENCE) broken(end, now.from + bad, now.from + KV_FENCE);
  for (const take *t = end; t-- > now.top;) {
    char *after = t->at + t->n;
    char *to = t > now.top ? t[-1].at : now.next;
    bad = kv_fence_marked(after, (size_t)(to - after));
    if (after + bad < to) broken(t, after + bad, to);
  }
  char *top = (char *)now.top;
  bad = now.whole ? kv_fence_marked(now.next, (size_t)(top - now.next)) : 0;
  if (now.whole && now.next + bad < top) broken(now.top, now.next + bad, top);
  if (now.whole) kv_fence_mark(top, (size_t)(now.end - top));
  now.dirty = now.next;
}
