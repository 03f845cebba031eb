/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor's scheduling, barriers, collectives and shared memory. A thread
 * that cannot run picks the next one and switches to it. The last thread to
 * reach a collective computes the answers of all, so each thread waits once for
 * a collective, not twice.
 */
#include "gpu/emu/emu_context.h"

#include <stdio.h>
#include <stdlib.h>

namespace {

typedef kv_emu_context context;
typedef kv_emu_thread thread;

int lowest(uint32_t lanes) { return __builtin_ctz(lanes); }
int highest(uint32_t lanes) { return 31 - __builtin_clz(lanes); }

/* Reports a deadlock: no thread can run, although some have not ended. One that
 * waits at a collective waits for a lane that is elsewhere. */
[[noreturn]] void stuck(context *c) {
  for (int w = 0; w < KV_EMU_WARPS; w++) {
    for (uint32_t rest = c->waiting[w]; rest; rest &= rest - 1) {
      const thread *t = &c->thread[w * 32 + lowest(rest)];
      for (uint32_t m = t->mask & c->live[w]; m; m &= m - 1) {
        const thread *u = &c->thread[w * 32 + lowest(m)];
        bool collective = c->waiting[w] & (m & -m);
        if (collective && u->site == t->site && u->mask == t->mask) continue;
        kv_emu_break(c,
                     "%s: thread %d stands at %s in %s:%d with the mask %08x, "
                     "thread %d of it at %s in %s:%d%s",
                     collective ? "a divergent collective" : "a deadlock",
                     kv_emu_number(c, t), t->site->word, t->site->file,
                     t->site->line, t->mask, kv_emu_number(c, u), u->site->word,
                     u->site->file, u->site->line,
                     u->site == t->site ? " with another mask" : "");
      }
    }
  }
  kv_emu_break(c, "a deadlock");
}

/* The running thread waits at a barrier or collective. */
void stop(context *c) {
  thread *me = c->now, *next = kv_emu_next(c);
  if (next == me) return;
  if (!next) stuck(c);
  kv_emu_turn(c, next);
  kv_emu_jump(c, next->on, false);
}

/* What the lanes say together. */
uint64_t together(const context *c, int w, uint32_t lanes, int what) {
  uint32_t said = 0, most = 0, sum = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    uint64_t in = c->thread[w * 32 + lowest(rest)].in;
    said |= (uint32_t)(in != 0) << lowest(rest);
    most = in > most ? (uint32_t)in : most;
    sum += (uint32_t)in;
  }
  return what == KV_EMU_MOST ? most : what == KV_EMU_SUM ? sum : said;
}

uint64_t brought(context *c, int w, uint32_t lanes, const thread *t) {
  if (!(lanes >> t->from & 1))
    kv_emu_break(c,
                 "thread %d reads lane %d, which takes no part, at %s in %s:%d",
                 kv_emu_number(c, t), t->from, t->site->word, t->site->file,
                 t->site->line);
  return c->thread[w * 32 + t->from].in;
}

/* Releases the lanes of the mask if all living ones wait at the same site. */
void meet(context *c, int w, uint32_t mask) {
  uint32_t lanes = mask & c->live[w];
  if ((c->waiting[w] & lanes) != lanes || !lanes) return;
  thread *warp = &c->thread[w * 32];
  const thread *first = &warp[lowest(lanes)];
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const thread *t = &warp[lowest(rest)];
    if (t->site != first->site || t->mask != mask) return;
  }
  uint64_t said = first->from < 0 ? together(c, w, lanes, first->from) : 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    thread *t = &warp[lowest(rest)];
    t->out = t->from < 0 ? said : brought(c, w, lanes, t);
  }
  c->waiting[w] &= ~lanes;
  c->ready[w] |= lanes;
}

/* The context of a kernel's thread. */
context *in_kernel(const kv_emu_site *site) {
  if (!kv_emu_mine || !kv_emu_mine->launch) {
    fprintf(stderr, "kvreplay: %s in %s:%d outside of a kernel\n", site->word,
            site->file, site->line);
    abort();
  }
  return kv_emu_mine;
}

} // namespace

kv_emu_thread *kv_emu_next(const kv_emu_context *c) {
  for (int i = 0; i < KV_EMU_WARPS; i++) {
    int w = c->reverse ? KV_EMU_WARPS - 1 - i : i;
    uint32_t can = c->ready[w];
    if (!can) continue;
    int lane = c->reverse ? highest(can) : lowest(can);
    return const_cast<thread *>(&c->thread[w * 32 + lane]);
  }
  return nullptr;
}

void kv_emu_turn(kv_emu_context *c, kv_emu_thread *t) {
  c->now = t;
  kv_emu_place.thread.x = (unsigned)kv_emu_number(c, t);
}

kv_emu_thread *kv_emu_leave(kv_emu_context *c) {
  int me = kv_emu_number(c, c->now), w = me / 32;
  uint32_t bit = 1u << me % 32;
  const kv_emu_site *s = c->thread[c->first_there].site;
  kv_emu_land(c);
  if (c->at_barrier)
    kv_emu_break(
        c,
        "a divergent barrier: thread %d stands at %s in %s:%d, thread %d "
        "has left",
        c->first_there, s->word, s->file, s->line, me);
  c->live[w] &= ~bit;
  c->ready[w] &= ~bit;
  c->left++;
  c->gone = me;
  for (uint32_t rest = c->waiting[w]; rest;) {
    uint32_t mask = c->thread[w * 32 + lowest(rest)].mask;
    meet(c, w, mask);
    rest &= ~mask;
  }
  thread *next = kv_emu_next(c);
  if (!next && c->left < c->n) stuck(c);
  return next;
}

void kv_emu_barrier(const kv_emu_site *site) {
  context *c = in_kernel(site);
  int me = kv_emu_number(c, c->now);
  const kv_emu_site *there = c->thread[c->first_there].site;
  if (c->left)
    kv_emu_break(
        c,
        "a divergent barrier: thread %d comes to %s in %s:%d, thread %d "
        "has left",
        me, site->word, site->file, site->line, c->gone);
  if (c->at_barrier && there != site)
    kv_emu_break(
        c,
        "a divergent barrier: thread %d stands at %s in %s:%d, thread %d "
        "at line %d",
        c->first_there, there->word, there->file, there->line, me, site->line);
  if (!c->at_barrier) c->first_there = me;
  c->now->site = site;
  c->ready[me / 32] &= ~(1u << me % 32);
  if (++c->at_barrier == c->n) {
    c->at_barrier = 0;
    c->passed++;
    for (int w = 0; w < KV_EMU_WARPS; w++) c->ready[w] = c->live[w];
    kv_emu_races_barrier(c);
  }
  stop(c);
}

uint64_t kv_emu_meet(const kv_emu_site *site, uint32_t mask, uint64_t value,
                     int from) {
  context *c = in_kernel(site);
  thread *me = c->now;
  int w = kv_emu_number(c, me) / 32;
  uint32_t bit = 1u << kv_emu_number(c, me) % 32;
  if (!(mask & bit))
    kv_emu_break(c, "thread %d is not in its own mask %08x at %s in %s:%d",
                 kv_emu_number(c, me), mask, site->word, site->file,
                 site->line);
  me->site = site;
  me->mask = mask;
  me->in = value;
  me->from = from;
  c->ready[w] &= ~bit;
  c->waiting[w] |= bit;
  meet(c, w, mask);
  stop(c);
  return me->out;
}

/* The table's slot for a site: its own, or a free one. */
static kv_emu_array *place_of(kv_emu_context *c, const kv_emu_site *site) {
  uint64_t hash = (uint64_t)(uintptr_t)site * 0x9e3779b97f4a7c15u >> 56;
  for (;; hash = (hash + 1) % KV_EMU_ARRAYS) {
    kv_emu_array *a = &c->array[hash];
    if (a->block != c->blocks || a->site == site) return a;
  }
}

void *kv_emu_shared(const kv_emu_site *site, size_t n) {
  context *c = in_kernel(site);
  kv_emu_array *a = place_of(c, site);
  if (a->block == c->blocks) return a->at;
  c->declared += n;
  if (c->declared > KV_EMU_SHARED || ++c->arrays == KV_EMU_ARRAYS)
    kv_emu_break(c, "more shared memory than a kernel has, at %s:%d: %zu bytes",
                 site->file, site->line, c->declared);
  *a = {site, c->blocks, c->arena + c->used};
  c->used += (n + 2 * KV_EMU_GRAIN - 1) / KV_EMU_GRAIN * KV_EMU_GRAIN;
  kv_emu_unfence(a->at, n);
  memset(a->at, 0xaa, n);
  return a->at;
}
