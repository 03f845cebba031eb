/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA runtime made of the host's memory and the executor's kernels, which
 * fails on demand, under the real host part of the CUDA module:
 * gpu/module/cuda.cu (tests/cudart/module.cc). Kernels run when they are
 * started, or when a graph that holds them is.
 *
 * The device has a fixed number of bytes. Its pool reserves a multiple of GRAIN
 * for each piece, keeps freed pieces, reuses them only for the same size, and
 * returns them to the device when it is trimmed, after a wait for the stream.
 * After a failure that loses a device, every later call returns it. Waiting for
 * a captured stream, or copying, allocating or freeing on it, and a refused
 * start, spoil the recording.
 */
#ifndef KV_TESTS_CUDART_H
#define KV_TESTS_CUDART_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDART_GRAIN = 1024 }; /* bytes */

/* What the device reports of its memory pool. */
typedef enum cudart_pool {
  CUDART_POOL,       /* it has one that works */
  CUDART_NO_POOL,    /* it has none */
  CUDART_NO_ANSWER,  /* whether there is one cannot be asked */
  CUDART_NO_DEFAULT, /* there is one, and it cannot be had, */
  CUDART_NO_KEEPING, /* cannot be told to keep memory, */
  CUDART_NO_TAKING,  /* or has none */
  CUDART_POOLS
} cudart_pool;

/* Begins a test: a device of so many bytes that has not failed; counts of calls
 * are 0, and held or reserved memory stays. */
void cudart_reset(size_t bytes, cudart_pool pool);
/* From now on the n-th call (from 0) of a function, by its name ("cudaMalloc"),
 * and times - 1 calls after it, answer with code, a cudaError_t. NULL: of any
 * function that starts something, copies or takes memory. */
void cudart_fail(const char *call, int64_t n, int times, int code);
bool cudart_failed(void); /* true: one did */
/* How often the function was called since cudart_reset or cudart_fail; NULL:
 * those calls that cudart_fail then looked at. */
int64_t cudart_calls(const char *call);
/* Bytes of the device that are allocated, by the pool or by arrays; and arrays,
 * graphs and pieces of pinned memory that are not freed. */
size_t cudart_reserved(void);
int64_t cudart_held(void);
/* Calls since the reset that a stream being captured does not take. */
int64_t cudart_spoilt(void);

/* Between the runtime and the kernels (tests/cudart/kernels.cc), which the
 * executor runs: may a kernel start; and its recording, as in gpu/emu/emu.h. */
bool cudart_starts(void);
void cudart_record(void);
void *cudart_recorded(void);
void cudart_replay(const void *recorded);
void cudart_forget(void *recorded);

#ifdef __cplusplus
}
#endif

#endif
