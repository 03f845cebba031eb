/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor's launches, stacks and faults: contract in gpu/emu/emu.h. A
 * thread that ends passes its stack to the next one that has not begun, so a
 * kernel without barriers or collectives runs on one stack. Uses no C++
 * library.
 */
#include "gpu/emu/emu_context.h"
#include "gpu/emu/emu_fma.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

typedef kv_emu_context context;
typedef kv_emu_thread thread;
typedef kv_emu_stack stack;

static_assert(KV_EMU_ARENA % KV_EMU_GRAIN == 0, "the arena ends on a page");

pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_key_t at_exit;
int order_of_all = -1; /* not read from the environment yet */

/* --- faults ------------------------------------------------------------- */

void print_and_abort(const char *sentence) {
  fprintf(stderr, "kvreplay: %s\n", sentence);
  abort();
}

char first_fault[1536];
int faults; /* 0 none, 1 being written, 2 first_fault stands */

void say(const char *sentence) {
  kv_emu_fault(sentence);
  kv_emu_remember(sentence);
}

/* Reports a launch that cannot be run by kv_emu_fault or, where nothing is
 * wrong with the kernel, as a device that failed. */
void refuse(const kv_emu_launch *l, const char *why, bool wrong) {
  char text[512];
  snprintf(text, sizeof text, "kernel %s: %s", l->kernel, why);
  if (wrong)
    say(text);
  else
    kv_emu_remember(text);
}

/* --- stacks ------------------------------------------------------------- */

[[noreturn]] void serve(void);

void make_stack(stack *s) {
  kv_emu_frame_make(&s->frame, (char *)(uintptr_t)s->watch.base, s->watch.size,
                    serve);
  kv_emu_watch_make(&s->watch);
  s->made = true;
}

/* Lets a thread that has not begun take over the stack of the one that ended.
 */
bool hand_over(context *c, thread *next) {
  if (!next || !next->fresh) return false;
  stack *s = next->on;
  next->on = c->now->on;
  c->now->on = s;
  kv_emu_turn(c, next);
  return true;
}

/* The bottom of every fiber. */
[[noreturn]] void serve(void) {
  context *c = kv_emu_mine;
  kv_emu_watch_arrive(&c->stack->watch, &c->before->watch);
  while (!c->closing) {
    thread *next;
    kv_emu_ground_write(&c->ground);
    do {
      c->now->fresh = false;
      c->launch->call(c->launch->closure);
      next = kv_emu_leave(c);
    } while (hand_over(c, next));
    if (next) kv_emu_turn(c, next);
    kv_emu_jump(c, next ? next->on : &c->home, false);
  }
  kv_emu_jump(c, &c->home, true);
  abort();
}

/* --- launches ----------------------------------------------------------- */

void begin(context *c, uint64_t block) {
  dim3 g = c->launch->grid;
  kv_emu_place.block = {(unsigned)(block % g.x), (unsigned)(block / g.x % g.y),
                        (unsigned)(block / g.x / g.y)};
  for (int w = 0; w < KV_EMU_WARPS; w++) {
    int lanes = c->n - w * 32;
    uint32_t all = lanes >= 32 ? ~0u : lanes > 0 ? (1u << lanes) - 1u : 0;
    c->ready[w] = c->live[w] = all;
    c->waiting[w] = 0;
  }
  for (int i = 0; i < c->n; i++) c->thread[i].fresh = true;
  c->left = c->at_barrier = 0;
  kv_emu_fence(c->arena, c->used);
  c->arrays = 0;
  c->used = c->declared = 0;
  c->blocks++;
  c->passed = 0;
  kv_emu_done = {};
  kv_emu_races_block(c);
}

void forget_stacks(context *c) {
  for (int i = 0; i < KV_EMU_THREADS; i++) {
    if (c->stacks[i].made) kv_emu_watch_forget(&c->stacks[i].watch);
    c->stacks[i].made = false;
  }
}

/* One mapping holds the context, the arena and the stacks, each above a guard
 * page. */
context *make_context(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t head = (sizeof(context) + KV_EMU_ARENA + page - 1) / page * page;
  size_t each = page + KV_EMU_STACK, size = head + KV_EMU_THREADS * each;
  void *map = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  context *c = (context *)map;
  c->map = (char *)map;
  c->map_size = size;
  c->arena = c->map + head - KV_EMU_ARENA;
  kv_emu_fence(c->arena, KV_EMU_ARENA);
  for (int i = 0; i < KV_EMU_THREADS; i++) {
    char *low = c->map + head + (size_t)i * each;
    (void)mprotect(low, page, PROT_NONE); /* optional: only a check is lost */
    c->stacks[i].watch.base = low + page;
    c->stacks[i].watch.size = KV_EMU_STACK;
    c->thread[i].on = &c->stacks[i];
  }
  c->home.made = true;
  kv_emu_watch_home(&c->home.watch);
  c->stack = &c->home;
  return c;
}

void release_of(void *) { kv_emu_release(); }
void make_key(void) { (void)pthread_key_create(&at_exit, release_of); }

/* The calling OS thread's context; NULL: no memory. */
context *own(void) {
  if (kv_emu_mine) return kv_emu_mine;
  kv_emu_mine = make_context();
  if (!kv_emu_mine) return nullptr;
  pthread_once(&once, make_key);
  (void)pthread_setspecific(at_exit, kv_emu_mine);
  return kv_emu_mine;
}

bool in_reverse(void) {
  int order = __atomic_load_n(&order_of_all, __ATOMIC_RELAXED);
  if (order < 0) {
    const char *asked = getenv("KVREPLAY_EMU_ORDER");
    order = asked && strcmp(asked, "reverse") == 0;
    kv_emu_order(order);
  }
  return order != 0;
}

const char *wrong(const kv_emu_launch *l) {
  dim3 g = l->grid, b = l->block;
  if (!g.x || !g.y || !g.z || !b.x) return "an empty grid or block";
  if (b.x > KV_EMU_THREADS || b.y != 1 || b.z != 1)
    return "blocks have up to 128 threads in one dimension";
  if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535)
    return "a grid that CUDA does not take";
  return nullptr;
}

uint64_t most(uint64_t a, uint64_t b) { return a < b ? b : a; }

void run(context *c, const kv_emu_launch *l) {
  kv_emu_count of = {}, *all = &c->count;
  uint64_t blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
  c->launch = l;
  c->n = (int)l->block.x;
  c->reverse = in_reverse();
  kv_emu_ground_read(&c->ground);
  kv_emu_races_launch(c);
  kv_emu_place.block_dim = {l->block.x, 1, 1};
  kv_emu_place.grid_dim = {l->grid.x, l->grid.y, l->grid.z};
  for (uint64_t i = 0; i < blocks && !c->broken; i++) {
    begin(c, c->reverse ? blocks - 1 - i : i);
    thread *first = kv_emu_next(c);
    kv_emu_turn(c, first);
    kv_emu_jump(c, first->on, false);
    of.barriers = most(of.barriers, c->passed);
    of.fmas = most(of.fmas, kv_emu_done.fmas);
    of.elements = most(of.elements, kv_emu_done.elements);
  }
  *all = {all->launches + 1, all->barriers + of.barriers, all->fmas + of.fmas,
          all->elements + of.elements};
  if (c->broken) {
    forget_stacks(c);
    for (kv_emu_copies &copies : c->copies) copies.n = 0;
  }
  c->broken = false;
  c->launch = nullptr;
  kv_emu_place = {};
}

} // namespace

#if defined __x86_64__ && !defined __FMA__
const bool kv_emu_has_fma = __builtin_cpu_supports("fma");
#endif
__thread kv_emu_here kv_emu_place;
__thread kv_emu_work kv_emu_done;
__thread kv_emu_context *kv_emu_mine;
void (*kv_emu_fault)(const char *sentence) = print_and_abort;

void kv_emu_break(kv_emu_context *c, const char *format, ...) {
  char why[1280], text[1536];
  const uint3 *b = &kv_emu_place.block;
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  snprintf(text, sizeof text, "kernel %.80s, block %u,%u,%u: %s",
           c->launch->kernel, b->x, b->y, b->z, why);
  say(text);
  c->broken = true;
  kv_emu_jump(c, &c->home, false);
  abort();
}

void kv_emu_jump(kv_emu_context *c, kv_emu_stack *to, bool last) {
  stack *from = c->stack;
  if (!to->made) make_stack(to);
  c->before = from;
  c->stack = to;
  kv_emu_watch_leave(&from->watch, &to->watch, last);
  kv_emu_frame_switch(&from->frame, &to->frame);
  kv_emu_watch_arrive(&from->watch, &c->before->watch);
}

void kv_emu_remember(const char *sentence) {
  int none = 0;
  if (!__atomic_compare_exchange_n(&faults, &none, 1, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED))
    return;
  snprintf(first_fault, sizeof first_fault, "%s", sentence);
  __atomic_store_n(&faults, 2, __ATOMIC_RELEASE);
}

const char *kv_emu_failed(void) {
  return __atomic_load_n(&faults, __ATOMIC_ACQUIRE) == 2 ? first_fault
                                                         : nullptr;
}

kv_emu_count kv_emu_counted(void) {
  return kv_emu_mine ? kv_emu_mine->count : kv_emu_count{};
}

void kv_emu_order(int order) {
  __atomic_store_n(&order_of_all, order != 0, __ATOMIC_RELAXED);
}

void kv_emu_run(const kv_emu_launch *launch) {
  const char *why = wrong(launch);
  context *c = own();
  if (c && c->launch) kv_emu_break(c, "launches kernel %s", launch->kernel);
  if (why)
    refuse(launch, why, true);
  else if (!c)
    refuse(launch, "no memory for the stacks of a block", false);
  else if (!kv_emu_keep(launch))
    run(c, launch);
}

void kv_emu_release(void) {
  context *c = kv_emu_mine;
  if (!c || c->launch) return;
  c->closing = true;
  for (int i = 0; i < KV_EMU_THREADS; i++)
    if (c->stacks[i].made) kv_emu_jump(c, &c->stacks[i], false);
  forget_stacks(c);
  kv_emu_unfence(c->arena, KV_EMU_ARENA);
  kv_emu_races_free();
  kv_emu_mine = nullptr;
  (void)pthread_setspecific(at_exit, nullptr);
  munmap(c->map, c->map_size);
}

void *kv_emu_take(size_t n) {
  void *p = nullptr;
  if (n <= SIZE_MAX - 256) p = aligned_alloc(256, (n / 256 + 1) * 256);
  if (p) memset(p, 0xaa, n);
  return p;
}

void kv_emu_give(void *p) { free(p); }
