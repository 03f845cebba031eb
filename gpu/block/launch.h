/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a kernel may use, and how the host starts one. The same .cu
 * files are compiled by nvcc for a device, and by a C++ compiler against the
 * executor of gpu/emu/emu.h, which runs a fiber for each CUDA thread.
 *
 *   KV_LAUNCH(stream, kernel, grid, block, args...)
 *       on the host: starts a kernel, on a device unless it has failed; keeps
 *       a failure for kv_device.failed. A statement, which may evaluate its
 *       arguments twice; put a kernel's name with a comma in parentheses
 *   KV_SHARED(type, name, n)
 *       in a kernel: declares `type name[n]` in shared memory, n a constant;
 *       its contents are undefined at the start of a block
 *   KV_DEVICE   begins a function that threads of a kernel call
 *   KV_UNROLL   before a loop: unroll it, so that arrays indexed by it stay in
 *               registers
 *   KV_TWICE    .. by two
 *   KV_ROLLED   .. not at all, because it is long and rarely run
 *   KV_APART    before __device__: the function is called, not copied to where
 *               it is used
 *   KV_REGISTERS(n)   after __global__: a thread has at most n registers, so
 *               that a multiprocessor holds more blocks (CUDA 12.4 and newer)
 *   KV_BLOCKS(n)   .. at most as many as let it hold n blocks; a kernel uses
 *               the one of the two that spills nothing (tests/check_sass.sh)
 *   kv_global(p)   p, marked as device memory, not shared memory: a KV_APART
 *               function cannot infer that, and would test it at each access
 *   kv_one_by_one()   the executor counts it (kv_emu_count.elements)
 *   gpu/block/async.h   asynchronous copies to shared memory
 *   __syncthreads, __syncwarp, __shfl_sync, _xor and _up, __ballot_sync,
 *   __any_sync, __reduce_max_sync, __reduce_add_sync, integer atomics,
 *   __threadfence, __popc, __clz, __ffs, threadIdx, blockIdx, blockDim and
 *   gridDim, as CUDA has them
 *
 * No kernel allocates, none uses floats in atomics, and floats that are stored
 * or decided on are computed only by functions of ref/ground, except the
 * conversions of gpu/block/half.h.
 */
#ifndef KV_GPU_LAUNCH_H
#define KV_GPU_LAUNCH_H

/* Threads of a block, in one dimension, and of a warp; warps of a block. All
 * blocks of all kernels have KV_BLOCK threads. */
enum { KV_BLOCK = 128, KV_WARP = 32, KV_WARPS = KV_BLOCK / KV_WARP };

#ifdef __CUDACC__
#  include <cuda_runtime.h>
/* gpu/module/cuda.cu, only for KV_LAUNCH: should the kernel be started, for the
 * first time (*tries is 0) or again after a lack of memory? Counts the tries,
 * and keeps the failure. */
extern "C" bool kv_gpu_starts(int *tries);
#  define kv_one_by_one() ((void)0)
#  define KV_LAUNCH(stream, kernel, grid, block, ...)                          \
    for (int kv_tries = 0; kv_gpu_starts(&kv_tries);)                          \
    kernel<<<(grid), (block), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__)
#  define KV_SHARED(type, name, n) __shared__ type name[n]
#  define KV_UNROLL _Pragma("unroll")
#  define KV_TWICE _Pragma("unroll 2")
#  define KV_ROLLED _Pragma("unroll 1")
#  define KV_APART __noinline__
#  define KV_BLOCKS(n) __launch_bounds__(KV_BLOCK, n)
#  if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#    define KV_REGISTERS(n) __maxnreg__(n)
#  else
#    define KV_REGISTERS(n)
#  endif
template <class T> static inline __device__ T *kv_global(T *p) {
  __builtin_assume(__isGlobal(p));
  return p;
}
#else
#  define KV_UNROLL
#  define KV_TWICE
#  define KV_ROLLED
#  define KV_APART
#  define KV_REGISTERS(n)
#  define KV_BLOCKS(n)
#  define kv_global(p) (p)
#  include "gpu/emu/emu.h"
#  define kv_one_by_one() KV_EMU_DONE(elements)
#endif

#define KV_DEVICE static inline __device__

#endif
