/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch's memory of accesses (gpu/emu/emu_races.h): for each kind the last
 * accesses by the latest block, and the last by a block before it. A page of
 * memory is cut into cells of 8 bytes; an access that takes part of a cell cuts
 * its page finer, so a cell's bytes were always accessed together.
 */
#include "gpu/emu/emu_context.h"

#ifdef KV_WATCH

#  include <stdio.h>
#  include <stdlib.h>

namespace {

enum { PAGE = 12, CACHE = 256, SITES = 1 << 20 };
/* Pages are forgotten at a launch when they have more bytes; intervals are
 * counted from 1 again when a launch might not fit above. */
constexpr size_t MOST = (size_t)1 << 28;
constexpr uint32_t WRAP = 1u << 27, LAST = (1u << 28) - 1;

/* Kinds that an access of a kind races with. */
constexpr unsigned CLASH[KV_EMU_KINDS] = {
    1u << KV_EMU_WRITE | 1u << KV_EMU_ATOMIC,
    15,
    1u << KV_EMU_READ | 1u << KV_EMU_WRITE,
    1u << KV_EMU_WRITE,
};

/* By kind; one cache line. `block`: of the block that came last, in its last
 * interval with such accesses; `before`: of an earlier block of its launch. */
struct cell {
  kv_emu_trace block[KV_EMU_KINDS], before[KV_EMU_KINDS];
};

struct page {
  uintptr_t number;
  int shift; /* of a cell's bytes */
  cell *cells;
};

size_t cells_of(int shift) { return (size_t)1 << (PAGE - shift); }

/* An access, as cells are asked about it. */
struct access {
  kv_emu_context *c;
  int thread;
  uintptr_t at;
  size_t n;
  kv_emu_kind kind;
  const void *where;
  unsigned warp;  /* its bit */
  uint32_t floor; /* intervals before it are of other launches, or, in shared
                     memory, other blocks */
  bool shared;
};

[[noreturn]] void no_memory(void) {
  fprintf(stderr, "kvreplay: no memory for the watch\n");
  abort();
}

} // namespace

struct kv_emu_races {
  kv_emu_times time;
  kv_emu_order_state *order;
  page **slot; /* by hash of the number; a power of two of them */
  size_t slots, pages, bytes;
  page *cache[CACHE];
  const void **site; /* [SITES], by hash */
  int sites;
};

__thread kv_emu_races *kv_emu_races_mine;

namespace {

typedef kv_emu_races races;

/* --- pages ---------------------------------------------------------------- */

page **find(races *r, uintptr_t number) {
  size_t at = (size_t)((uint64_t)number * 0x9e3779b97f4a7c15u >> 20);
  while (r->slot[at % r->slots] && r->slot[at % r->slots]->number != number)
    at++;
  return &r->slot[at % r->slots];
}

void grow(races *r) {
  page **old = r->slot;
  size_t n = r->slots;
  r->slots = n ? 2 * n : 1024;
  r->slot = (page **)calloc(r->slots, sizeof *r->slot);
  if (!r->slot) no_memory();
  for (size_t i = 0; i < n; i++)
    if (old[i]) *find(r, old[i]->number) = old[i];
  free(old);
}

cell *new_cells(races *r, int shift) {
  cell *cells = (cell *)calloc(cells_of(shift), sizeof *cells);
  if (!cells) no_memory();
  r->bytes += cells_of(shift) * sizeof *cells;
  return cells;
}

page *look_up(races *r, uintptr_t number, page **cached) {
  if (2 * r->pages >= r->slots) grow(r);
  page **slot = find(r, number);
  if (!*slot) {
    *slot = (page *)malloc(sizeof **slot);
    if (!*slot) no_memory();
    **slot = {number, 3, new_cells(r, 3)};
    r->pages++;
  }
  return *cached = *slot;
}

inline page *page_of(races *r, uintptr_t number) {
  page **cached = &r->cache[number % CACHE];
  if (*cached && (*cached)->number == number) return *cached;
  return look_up(r, number, cached);
}

/* Every cell becomes several that remember the same. */
void cut(races *r, page *p, int shift) {
  cell *fine = new_cells(r, shift);
  for (size_t i = 0; i < cells_of(shift); i++)
    fine[i] = p->cells[i >> (p->shift - shift)];
  r->bytes -= cells_of(p->shift) * sizeof *fine;
  free(p->cells);
  p->cells = fine;
  p->shift = shift;
}

void forget(races *r) {
  for (size_t i = 0; i < r->slots; i++) {
    if (r->slot[i]) free(r->slot[i]->cells);
    free(r->slot[i]);
  }
  free(r->slot);
  memset(r->cache, 0, sizeof r->cache);
  r->slot = nullptr;
  r->slots = r->pages = r->bytes = 0;
}

/* --- places in the code --------------------------------------------------- */

/* 0: one of more than can be told apart. */
uint32_t site_of(races *r, const void *where) {
  uint64_t at = (uint64_t)(uintptr_t)where * 0x9e3779b97f4a7c15u >> 44;
  for (;; at++) {
    uint32_t i = (uint32_t)(at % SITES);
    if (r->site[i] == where) return i;
    if (i && !r->site[i]) {
      if (r->sites == SITES / 2) return 0;
      r->sites++;
      r->site[i] = where;
      return i;
    }
  }
}

/* --- the question --------------------------------------------------------- */

[[noreturn]] void tell(const races *r, const access &a, kv_emu_kind other,
                       kv_emu_trace before) {
  uint32_t when = kv_emu_trace_when(before);
  kv_emu_race said = {(const void *)a.at,
                      a.n,
                      a.thread,
                      a.kind,
                      other,
                      before,
                      a.where,
                      r->site[kv_emu_trace_site(before)],
                      a.shared,
                      when < r->time.block,
                      kv_emu_order_block_at(r->order, when)};
  kv_emu_races_say(a.c, &said);
}

inline bool clashes(const races *r, const access &a, kv_emu_kind other,
                    kv_emu_trace before) {
  uint32_t when = kv_emu_trace_when(before);
  if (when < a.floor) return false;
  if (when < r->time.block) return !kv_emu_order_holds(r->order, when, other);
  return when == r->time.now && (kv_emu_trace_warps(before) & ~a.warp);
}

inline void remember(races *r, const access &a, cell *of) {
  kv_emu_trace *last = &of->block[a.kind];
  uint32_t when = kv_emu_trace_when(*last);
  unsigned warps = a.warp;
  if (when == r->time.now)
    warps |= kv_emu_trace_warps(*last);
  else if (when >= a.floor && when < r->time.block)
    of->before[a.kind] = *last;
  *last = (uint64_t)r->time.now << 36 | (uint64_t)warps << 32 |
          (uint64_t)a.thread << 25 | site_of(r, a.where);
}

inline void ask(races *r, const access &a, cell *of) {
  kv_emu_trace same = of->block[a.kind];
  if (kv_emu_trace_when(same) == r->time.now &&
      (kv_emu_trace_warps(same) & a.warp))
    return; /* it was asked before, and others since */
  for (int k = 0; k < KV_EMU_KINDS; k++) {
    kv_emu_kind other = (kv_emu_kind)k;
    if (!(CLASH[a.kind] >> k & 1)) continue;
    if (clashes(r, a, other, of->block[k])) tell(r, a, other, of->block[k]);
    if (clashes(r, a, other, of->before[k])) tell(r, a, other, of->before[k]);
  }
  remember(r, a, of);
}

/* The part of an access that is in one page. */
inline void ask_page(races *r, const access &a, uintptr_t at, size_t n) {
  page *p = page_of(r, at >> PAGE);
  size_t from = at & (((size_t)1 << PAGE) - 1), to = from + n;
  int fits = __builtin_ctzll(from | to | 8);
  if (fits < p->shift) cut(r, p, fits);
  for (size_t i = from >> p->shift; i < to >> p->shift; i++)
    ask(r, a, &p->cells[i]);
}

inline void see(kv_emu_context *c, int thread, const void *address, size_t n,
                kv_emu_kind kind, const void *where) {
  races *r = kv_emu_races_mine;
  uintptr_t at = (uintptr_t)address, end = at + n;
  bool shared = at - (uintptr_t)c->arena < KV_EMU_ARENA;
  /* A thread's own variables, the indexes of the running one. */
  if (!shared && (at - (uintptr_t)c->map < c->map_size ||
                  at - (uintptr_t)&kv_emu_place < sizeof kv_emu_place))
    return;
  access a = {c,
              thread,
              at,
              n,
              kind,
              where,
              1u << thread / 32,
              shared ? r->time.block : r->time.launch,
              shared};
  for (uintptr_t stop; at < end; at = stop) {
    stop = ((at >> PAGE) + 1) << PAGE;
    if (stop > end) stop = end;
    ask_page(r, a, at, stop - at);
  }
}

/* Copies on their way write and read in this interval, too. */
void see_copies(kv_emu_context *c) {
  for (int t = 0; t < c->n; t++)
    for (int i = 0; i < c->copies[t].n; i++) {
      const kv_emu_one *a = &c->copies[t].copy[i];
      kv_emu_races_copy(c, t, a->to, a->from, KV_EMU_COPY, a->where);
    }
}

races *own(void) {
  races *r = kv_emu_races_mine;
  if (r) return r;
  r = (races *)calloc(1, sizeof *r);
  if (r) r->site = (const void **)calloc(SITES, sizeof *r->site);
  if (r) r->order = kv_emu_order_make();
  if (!r || !r->site || !r->order) no_memory();
  return kv_emu_races_mine = r;
}

} // namespace

void kv_emu_races_launch(kv_emu_context *) {
  races *r = own();
  if (r->bytes > MOST || r->time.now > WRAP) forget(r);
  if (r->time.now > WRAP) r->time.now = 0;
  r->time.launch = r->time.now + 1;
  kv_emu_order_launch(r->order);
}

void kv_emu_races_block(kv_emu_context *) {
  races *r = kv_emu_races_mine;
  r->time.block = ++r->time.now;
  kv_emu_order_block(r->order, r->time.now);
}

void kv_emu_races_barrier(kv_emu_context *c) {
  races *r = kv_emu_races_mine;
  if (r->time.now == LAST) kv_emu_break(c, "too long to be watched");
  r->time.now++;
  kv_emu_order_barrier(r->order);
  see_copies(c);
}

void kv_emu_races_copy(kv_emu_context *c, int t, void *to, const void *from,
                       size_t n, const void *where) {
  see(c, t, to, n, KV_EMU_WRITE, where);
  see(c, t, from, n, KV_EMU_READ, where);
}

void kv_emu_races_free(void) {
  races *r = kv_emu_races_mine;
  if (!r) return;
  forget(r);
  kv_emu_order_free(r->order);
  free(r->site);
  free(r);
  kv_emu_races_mine = nullptr;
}

void kv_emu_see(const void *at, size_t n, kv_emu_kind kind, const void *where) {
  kv_emu_context *c = kv_emu_mine;
  if (!c || !c->launch) return;
  int thread = (int)kv_emu_place.thread.x;
  see(c, thread, at, n, kind, where);
  if (kind == KV_EMU_ATOMIC || kind == KV_EMU_LOOK)
    kv_emu_order_meet(kv_emu_races_mine->order, thread, at, kind);
}

void kv_emu_see_fence(void) {
  kv_emu_context *c = kv_emu_mine;
  if (!c || !c->launch) return;
  dim3 g = c->launch->grid;
  kv_emu_order_fence(kv_emu_races_mine->order, (int)kv_emu_place.thread.x,
                     (uint64_t)g.x * g.y * g.z, kv_emu_races_mine->time.now);
}

#endif
