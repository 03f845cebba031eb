/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor: kernels of gpu/ as C++20 on the CPU, a fiber per CUDA thread.
 * It gives what gpu/launch.h names and no more, so that a kernel which
 * compiles here finds the same words in CUDA.
 *
 * A launch returns when the grid is done. Blocks run one after another; of a
 * block's threads the lowest that can go on does so, until it meets a barrier
 * or a warp collective or leaves (or the highest, and the last block first:
 * kv_emu_order). Streams are the order of the calls. Launches of different OS
 * threads run at the same time and share nothing.
 *
 * What CUDA leaves undefined is a fault here: threads of a block at different
 * barriers, a barrier that some have left behind, lanes of a mask at
 * different collectives, a lane read that takes no part, a deadlock, more
 * shared memory than a kernel may have, a thread that ends with copies on
 * their way (gpu/async.h). A fault calls kv_emu_fault with one
 * sentence; where that returns, the launch is abandoned: its other threads
 * and blocks never run on. Two meetings are the same when their source lines
 * are, so threads that come to one line from different calls are not told
 * apart.
 *
 * A kernel runs in the float ground of its launcher. Memory, stacks included,
 * is taken at the first launch of an OS thread and kept until it ends.
 */
#ifndef KV_GPU_EMU_H
#define KV_GPU_EMU_H

#ifdef __CUDACC__
#  error "nvcc has the real ones"
#endif

#include "gpu/emu_words.h"

/* What a fault calls; as it stands prints the sentence and aborts. One for
 * all OS threads: called on a fiber, it must return or end the process. */
extern void (*kv_emu_fault)(const char *sentence);
/* The first fault that returned, or NULL. */
const char *kv_emu_failed(void);

/* Of launches from here on: 0 forward, 1 reverse. Before the first call the
 * environment says it: KVREPLAY_EMU_ORDER=reverse. */
void kv_emu_order(int order);

/* How often kernels of the calling OS thread have copied 16 bytes to shared
 * memory by gpu/async.h, ever. */
uint64_t kv_emu_copied(void);

/* Gives the calling OS thread's fibers back; not from a kernel. An ending
 * thread does it itself. */
void kv_emu_release(void);

/* Device memory, 256-byte aligned and full of 0xAA; NULL: no memory. */
void *kv_emu_take(size_t n);
void kv_emu_give(void *p); /* accepts NULL */

/* One grid: `call(closure)` is the body of a thread. */
typedef struct kv_emu_launch {
  const char *kernel; /* its name, for sentences */
  dim3 grid, block;
  void (*call)(const void *closure);
  const void *closure; /* kernel and arguments: `size` bytes */
  size_t size;
} kv_emu_launch;
/* Runs it, or keeps it where launches are recorded. */
void kv_emu_run(const kv_emu_launch *launch);

/* Between the two, launches of the calling OS thread are not run but kept
 * with copies of their arguments. NULL: none, or no memory
 * (kv_emu_failed says so). */
typedef struct kv_emu_list kv_emu_list;
void kv_emu_record(void);
kv_emu_list *kv_emu_recorded(void);
void kv_emu_replay(const kv_emu_list *list);
void kv_emu_forget(kv_emu_list *list); /* accepts NULL */

template <class... P, class... A>
void kv_emu_start(const char *name, dim3 grid, dim3 block, void (*kernel)(P...),
                  A... args) {
  auto body = [=] { kernel(args...); };
  static_assert(__is_trivially_copyable(decltype(body)),
                "a kernel's arguments are plain bytes");
  kv_emu_launch launch = {name,
                          grid,
                          block,
                          [](const void *closure) {
                            (*static_cast<const decltype(body) *>(closure))();
                          },
                          &body,
                          sizeof body};
  kv_emu_run(&launch);
}

/* A kernel with a comma in its name stands in parentheses. */
#define KV_LAUNCH(stream, kernel, grid, block, ...)                            \
  ((void)(stream), kv_emu_start(#kernel, dim3(grid), dim3(block),              \
                                kernel __VA_OPT__(, ) __VA_ARGS__))

/* Full of 0xAA when the block first meets it; out of bounds to ASan. */
#define KV_SHARED(type, name, n)                                               \
  type(&name)[n] = *static_cast<type(*)[n]>(                                   \
      kv_emu_shared(KV_EMU_AT("KV_SHARED"), sizeof(type[n])))

#endif
