/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that code compiled with -fsanitize=thread calls: gcc's and
 * clang's names for loads, stores and atomics, which the watch defines in place
 * of libtsan. The atomics are also performed here. This file is not compiled
 * with that option.
 */
#include "gpu/emu/emu_context.h"

#ifdef KV_WATCH

#  define HERE __builtin_return_address(0)
#  define KV_HOOK extern "C" __attribute__((visibility("default")))

#  define SEEN(name, n, kind)                                                  \
    KV_HOOK void name(void *at);                                               \
    KV_HOOK void name(void *at) { kv_emu_see(at, n, kind, HERE); }
#  define SEEN_BOTH(prefix, n)                                                 \
    SEEN(__tsan_##prefix##read##n, n, KV_EMU_READ)                             \
    SEEN(__tsan_##prefix##write##n, n, KV_EMU_WRITE)
#  define SEEN_VOLATILE(prefix, n)                                             \
    SEEN(__tsan_##prefix##read##n, n, KV_EMU_LOOK)                             \
    SEEN(__tsan_##prefix##write##n, n, KV_EMU_ATOMIC)

SEEN_BOTH(, 1)
SEEN_BOTH(, 2)
SEEN_BOTH(, 4)
SEEN_BOTH(, 8)
SEEN_BOTH(, 16)
SEEN_BOTH(unaligned_, 2)
SEEN_BOTH(unaligned_, 4)
SEEN_BOTH(unaligned_, 8)
SEEN_BOTH(unaligned_, 16)
SEEN_VOLATILE(volatile_, 1)
SEEN_VOLATILE(volatile_, 2)
SEEN_VOLATILE(volatile_, 4)
SEEN_VOLATILE(volatile_, 8)
SEEN_VOLATILE(volatile_, 16)
SEEN_VOLATILE(unaligned_volatile_, 2)
SEEN_VOLATILE(unaligned_volatile_, 4)
SEEN_VOLATILE(unaligned_volatile_, 8)
SEEN_VOLATILE(unaligned_volatile_, 16)

extern "C" {
/* A module's constructors call it. */
void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *);
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

void __tsan_read_range(void *at, size_t n);
void __tsan_read_range(void *at, size_t n) {
  kv_emu_see(at, n, KV_EMU_READ, HERE);
}
void __tsan_write_range(void *at, size_t n);
void __tsan_write_range(void *at, size_t n) {
  kv_emu_see(at, n, KV_EMU_WRITE, HERE);
}

/* Called by clang from 15 on, and by gpu/emu/emu_libc.h. */
void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n) {
  kv_emu_see(from, n, KV_EMU_READ, HERE);
  kv_emu_see(to, n, KV_EMU_WRITE, HERE);
  return memcpy(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n) {
  kv_emu_see(from, n, KV_EMU_READ, HERE);
  kv_emu_see(to, n, KV_EMU_WRITE, HERE);
  return memmove(to, from, n);
}
void *__tsan_memset(void *at, int byte, size_t n);
void *__tsan_memset(void *at, int byte, size_t n) {
  kv_emu_see(at, n, KV_EMU_WRITE, HERE);
  return memset(at, byte, n);
}

void __tsan_atomic_thread_fence(int);
void __tsan_atomic_thread_fence(int) { kv_emu_see_fence(); }
void __tsan_atomic_signal_fence(int);
void __tsan_atomic_signal_fence(int) {}
}

/* --- atomics -------------------------------------------------------------- */

#  define CHANGED(T, n, word)                                                  \
    KV_HOOK T __tsan_atomic##n##_##word(volatile T *at, T x, int);             \
    KV_HOOK T __tsan_atomic##n##_##word(volatile T *at, T x, int) {            \
      kv_emu_see((void *)at, sizeof x, KV_EMU_ATOMIC, HERE);                   \
      return __atomic_##word(at, x, __ATOMIC_SEQ_CST);                         \
    }
#  define COMPARED(T, n, word)                                                 \
    KV_HOOK int __tsan_atomic##n##_compare_exchange_##word(                    \
        volatile T *at, T *old, T x, int, int);                                \
    KV_HOOK int __tsan_atomic##n##_compare_exchange_##word(                    \
        volatile T *at, T *old, T x, int, int) {                               \
      kv_emu_see((void *)at, sizeof x, KV_EMU_ATOMIC, HERE);                   \
      return __atomic_compare_exchange_n(at, old, x, false, __ATOMIC_SEQ_CST,  \
                                         __ATOMIC_SEQ_CST);                    \
    }
#  define ATOMICS(T, n)                                                        \
    CHANGED(T, n, fetch_add)                                                   \
    CHANGED(T, n, fetch_sub)                                                   \
    CHANGED(T, n, fetch_and)                                                   \
    CHANGED(T, n, fetch_or)                                                    \
    CHANGED(T, n, fetch_xor)                                                   \
    CHANGED(T, n, fetch_nand)                                                  \
    COMPARED(T, n, strong)                                                     \
    COMPARED(T, n, weak)                                                       \
    KV_HOOK T __tsan_atomic##n##_exchange(volatile T *at, T x, int);           \
    KV_HOOK T __tsan_atomic##n##_exchange(volatile T *at, T x, int) {          \
      kv_emu_see((void *)at, sizeof x, KV_EMU_ATOMIC, HERE);                   \
      return __atomic_exchange_n(at, x, __ATOMIC_SEQ_CST);                     \
    }                                                                          \
    KV_HOOK T __tsan_atomic##n##_load(const volatile T *at, int);              \
    KV_HOOK T __tsan_atomic##n##_load(const volatile T *at, int) {             \
      kv_emu_see((const void *)at, sizeof(T), KV_EMU_LOOK, HERE);              \
      return __atomic_load_n(at, __ATOMIC_SEQ_CST);                            \
    }                                                                          \
    KV_HOOK void __tsan_atomic##n##_store(volatile T *at, T x, int);           \
    KV_HOOK void __tsan_atomic##n##_store(volatile T *at, T x, int) {          \
      kv_emu_see((void *)at, sizeof x, KV_EMU_ATOMIC, HERE);                   \
      __atomic_store_n(at, x, __ATOMIC_SEQ_CST);                               \
    }

ATOMICS(uint8_t, 8)
ATOMICS(uint16_t, 16)
ATOMICS(uint32_t, 32)
ATOMICS(uint64_t, 64)

#endif
