/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor: runs the kernels of gpu/ as C++20 on the CPU, with fibers for
 * CUDA threads. It provides exactly what gpu/block/launch.h lists, so a kernel
 * that compiles here uses nothing else of CUDA.
 *
 * Kernels see it through gpu/block/launch.h; gpu/module/emu_device.cc makes a
 * kv_device of it; tests call it directly. The host's functions may be called
 * by any OS thread, but not from a kernel.
 *
 * A launch returns when the grid is done. Blocks run one after another. Within
 * a block the lowest thread that can run does so until it reaches a barrier or
 * a warp collective, or ends; in the reverse order (kv_emu_order) the highest
 * thread, and the last block, come first. A stream is simply the order of the
 * calls. Launches from different OS threads run concurrently and share nothing.
 *
 * What CUDA leaves undefined is a fault here: threads of a block at different
 * barriers; a barrier that some threads have ended without reaching; lanes of a
 * mask at different collectives; a thread outside its own mask; reading a lane
 * that does not participate; a deadlock; more shared memory than a kernel may
 * have; a copy of gpu/block/async.h that is unaligned or not from global to
 * shared memory; a thread that ends before its copies have arrived; in a build
 * by configure --enable-watch a race, too (gpu/emu/emu_races.h). A fault calls
 * kv_emu_fault with one sentence. If that returns, the launch is abandoned: its
 * other threads and blocks do not run on. Two collectives count as the same one
 * if their source lines are the same, so threads that reach one line from
 * different calls are not distinguished.
 *
 * A kernel runs in its launcher's floating-point mode. Memory, stacks included,
 * is allocated at the first launch of an OS thread and kept until that thread
 * ends or calls kv_emu_release.
 */
#ifndef KV_GPU_EMU_H
#define KV_GPU_EMU_H

#ifdef __CUDACC__
#  error "nvcc has the real ones"
#endif

#include "gpu/emu/emu_words.h"

/* The handler of faults, one for all OS threads; tests replace it. It gets one
 * sentence, on a fiber, and must return, which abandons the launch, or end the
 * process. The default prints the sentence and aborts. */
extern void (*kv_emu_fault)(const char *sentence);
/* The sentence of the first fault whose handler returned, or of a lack of
 * memory; NULL: none. */
const char *kv_emu_failed(void);

/* For tests: the order of threads and blocks in launches from here on, 0
 * forward, 1 reverse. Forward unless the environment has
 * KVREPLAY_EMU_ORDER=reverse. */
void kv_emu_order(int order);

/* For tests: what launches of the calling OS thread have cost, since
 * kv_emu_release, if called. Each number but the first is of the block of a
 * launch that has most of it, summed over the launches. Threads, blocks and
 * compilers may be in any order and of any kind: it is the same. */
typedef struct kv_emu_count {
  uint64_t launches;
  uint64_t barriers; /* that a block passes, one after another */
  uint64_t fmas;     /* calls of kv_fma by all threads of a block */
  uint64_t elements; /* .. of kv_gpu_element, which reads an element of a row,
                        and kv_gpu_decode_four, which decodes four */
} kv_emu_count;
kv_emu_count kv_emu_counted(void);

/* For tests: how many 16-byte copies to shared memory (gpu/block/async.h) the
 * kernels of the calling OS thread have made, since kv_emu_release, if called.
 */
uint64_t kv_emu_copied(void);

/* For tests: what these copies touch, if their source is in the range of the
 * last kv_emu_touch of this OS thread. The k-th copies that the threads of a
 * warp start in a group (kv_async_commit) are one request, as on a device if
 * all of them take the same branches. sectors: distinct 32-byte sectors of
 * global memory that requests touch, which a device fetches. turns: summed over
 * each 8 threads in order, the most that write to the same one of the 8 pieces
 * of 16 bytes that span the banks of shared memory. Nothing is fetched twice if
 * sectors is copied / 2; no thread waits if turns is copied / 8 (CUDA C++
 * Programming Guide, device memory accesses). */
typedef struct kv_emu_touched {
  uint64_t copied, sectors, turns;
} kv_emu_touched;
void kv_emu_touch(const void *from, size_t bytes); /* 0 bytes: no more */
kv_emu_touched kv_emu_what_touched(void);

/* Frees the calling OS thread's fibers, which are made again when needed. Done
 * automatically when a thread ends. */
void kv_emu_release(void);

/* n bytes of device memory, 256-byte aligned and filled with 0xAA, which the
 * caller frees with kv_emu_give; NULL: no memory. */
void *kv_emu_take(size_t n);
void kv_emu_give(void *p); /* accepts NULL */

/* One grid, as kv_emu_start makes it. */
typedef struct kv_emu_launch {
  const char *kernel;                /* its name, for sentences */
  dim3 grid, block;                  /* as CUDA has them */
  void (*call)(const void *closure); /* the body of a thread */
  const void *closure; /* its argument, kernel and arguments: `size` bytes */
  size_t size;
} kv_emu_launch;
/* Runs the launch, or between kv_emu_record and _recorded stores a copy. A
 * fault: an empty grid or one larger than CUDA takes, a block of more than 128
 * threads or of two dimensions, a launch from within a kernel, no memory. */
void kv_emu_run(const kv_emu_launch *launch);

/* Recording: from kv_emu_record on launches of the calling OS thread are stored
 * instead of run; kv_emu_recorded ends that and returns them, NULL if there
 * were none or no memory (see kv_emu_failed). kv_emu_replay runs them, any
 * number of times; kv_emu_forget frees them. */
typedef struct kv_emu_list kv_emu_list;
void kv_emu_record(void);
kv_emu_list *kv_emu_recorded(void);
void kv_emu_replay(const kv_emu_list *list);
void kv_emu_forget(kv_emu_list *list); /* accepts NULL */

/* What KV_LAUNCH does: runs kernel(args...) by every thread of a grid;
 * arguments are copied, and are plain bytes. */
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

/* Both as gpu/block/launch.h says. */
#define KV_LAUNCH(stream, kernel, grid, block, ...)                            \
  ((void)(stream), kv_emu_start(#kernel, dim3(grid), dim3(block),              \
                                kernel __VA_OPT__(, ) __VA_ARGS__))

/* Filled with 0xAA when a block first reaches the declaration; ASan detects
 * accesses out of bounds. */
#define KV_SHARED(type, name, n)                                               \
  type(&name)[n] = *static_cast<type(*)[n]>(                                   \
      kv_emu_shared(KV_EMU_AT("KV_SHARED"), sizeof(type[n])))

#endif
