/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells AddressSanitizer or ThreadSanitizer about the executor's stacks, and
 * the former about its shared memory; for gpu/emu/emu*.cc only. In a program
 * built without them every function does nothing. w, from, to, at: the record
 * of a stack.
 *
 *   kv_emu_watch_make(w)      a stack begins
 *   kv_emu_watch_forget(w)    its present contents are abandoned
 *   kv_emu_watch_home(w)      w is the stack that runs now, the launcher's
 *   kv_emu_watch_leave(from, to, last)   before a switch; last: nothing will
 *                             switch back to `from`
 *   kv_emu_watch_arrive(at, from)        after it, on stack `at`; the extent of
 *                             `from` becomes known
 *   kv_emu_fence(p, n), kv_emu_unfence(p, n)   AddressSanitizer reports who
 *                             accesses these bytes; and no longer does
 */
#ifndef KV_GPU_EMU_WATCH_H
#define KV_GPU_EMU_WATCH_H

#include <stddef.h>

#ifdef __has_feature
#  if __has_feature(address_sanitizer)
#    define KV_EMU_ASAN 1
#  endif
#  if __has_feature(thread_sanitizer)
#    define KV_EMU_TSAN 1
#  endif
#endif
#ifdef __SANITIZE_ADDRESS__
#  define KV_EMU_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#  define KV_EMU_TSAN 1
#endif

/* Bytes of a stack; instrumented frames are wide. */
#if defined KV_EMU_ASAN || defined KV_EMU_TSAN || defined KV_WATCH
enum { KV_EMU_STACK = 256 << 10 };
#else
enum { KV_EMU_STACK = 64 << 10 };
#endif

/* A function that returns on another stack than it was called on would leave
 * TSan's record of calls uneven. */
#define KV_EMU_INLINE static inline __attribute__((always_inline))

/* One stack, or the launcher's own. */
typedef struct kv_emu_watch {
  const void *base; /* its lowest byte */
  size_t size;      /* in bytes */
  void *fake;       /* ASan's frames of it while another runs */
  void *fiber;      /* TSan's */
} kv_emu_watch;

#ifdef KV_EMU_ASAN
#  include <sanitizer/asan_interface.h>
#  include <sanitizer/common_interface_defs.h>

static inline void kv_emu_watch_make(kv_emu_watch *) {}
static inline void kv_emu_watch_forget(kv_emu_watch *w) {
  __asan_unpoison_memory_region(w->base, w->size);
}
static inline void kv_emu_watch_home(kv_emu_watch *) {}
KV_EMU_INLINE void kv_emu_watch_leave(kv_emu_watch *from, kv_emu_watch *to,
                                      bool last) {
  __sanitizer_start_switch_fiber(last ? nullptr : &from->fake, to->base,
                                 to->size);
}
static inline void kv_emu_watch_arrive(kv_emu_watch *at, kv_emu_watch *from) {
  __sanitizer_finish_switch_fiber(at->fake, &from->base, &from->size);
}
static inline void kv_emu_fence(const void *p, size_t n) {
  __asan_poison_memory_region(p, n);
}
static inline void kv_emu_unfence(const void *p, size_t n) {
  __asan_unpoison_memory_region(p, n);
}

#else
#  ifdef KV_EMU_TSAN
#    include <sanitizer/tsan_interface.h>

static inline void kv_emu_watch_make(kv_emu_watch *w) {
  w->fiber = __tsan_create_fiber(0);
}
static inline void kv_emu_watch_forget(kv_emu_watch *w) {
  __tsan_destroy_fiber(w->fiber);
}
static inline void kv_emu_watch_home(kv_emu_watch *w) {
  w->fiber = __tsan_get_current_fiber();
}
KV_EMU_INLINE void kv_emu_watch_leave(kv_emu_watch *, kv_emu_watch *to, bool) {
  __tsan_switch_to_fiber(to->fiber, 0);
}

#  else

static inline void kv_emu_watch_make(kv_emu_watch *) {}
static inline void kv_emu_watch_forget(kv_emu_watch *) {}
static inline void kv_emu_watch_home(kv_emu_watch *) {}
KV_EMU_INLINE void kv_emu_watch_leave(kv_emu_watch *, kv_emu_watch *, bool) {}

#  endif

static inline void kv_emu_watch_arrive(kv_emu_watch *, kv_emu_watch *) {}
static inline void kv_emu_fence(const void *, size_t) {}
static inline void kv_emu_unfence(const void *, size_t) {}

#endif
#endif
