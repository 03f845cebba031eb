/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a kernel may use. The same .cu files are compiled by nvcc for
 * a device, and by a C++ compiler against the executor of gpu/emu/emu.h, which
 * runs a fiber for each CUDA thread.
 *
 *   KV_LAUNCH(stream, kernel, grid, block, args...)   starts a kernel, unless
 *                              something failed; a statement, whose arguments
 *                              may be evaluated twice
 *   KV_SHARED(type, name, n)   declares `type name[n]` in shared memory; n a
 *                              constant; undefined at the start of a block
 *   KV_UNROLL                  before a loop whose arrays stay in registers
 *   KV_TWICE, KV_ROLLED        before one that is to be unrolled by two; not at
 *                              all, where it is long and seldom taken
 *   KV_APART                   in front of a long function that is called, not
 *                              put wherever it is used
 *   gpu/block/async.h          asynchronous copies to shared memory
 *   __syncthreads, __syncwarp, __shfl_*_sync, __ballot_sync, integer atomics,
 *   __threadfence
 *
 * Blocks have KV_BLOCK threads in one dimension. No kernel allocates, none uses
 * floats in atomics, and nothing but ref/ground/arith.h computes a float that
 * is stored or decided on.
 */
#ifndef KV_GPU_LAUNCH_H
#define KV_GPU_LAUNCH_H

enum { KV_BLOCK = 128, KV_WARP = 32, KV_WARPS = KV_BLOCK / KV_WARP };

#ifdef __CUDACC__
#  include <cuda_runtime.h>
/* gpu/module/cuda.cu: is the kernel to be started, the first time or, where
 * there was no memory for it, once more? */
extern "C" bool kv_gpu_starts(int *tries);
#  define KV_LAUNCH(stream, kernel, grid, block, ...)                          \
    for (int kv_tries = 0; kv_gpu_starts(&kv_tries);)                          \
    kernel<<<(grid), (block), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__)
#  define KV_SHARED(type, name, n) __shared__ type name[n]
#  define KV_UNROLL _Pragma("unroll")
#  define KV_TWICE _Pragma("unroll 2")
#  define KV_ROLLED _Pragma("unroll 1")
#  define KV_APART __noinline__
#else
#  define KV_UNROLL
#  define KV_TWICE
#  define KV_ROLLED
#  define KV_APART
#  include "gpu/emu/emu.h"
#endif

#define KV_DEVICE static inline __device__

#endif
