/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs that compute let be chosen: the kernel set by KVREPLAY_ISA, and
 * threads.
 */
#ifndef KV_TRACES_OPTION_KERNELS_H
#define KV_TRACES_OPTION_KERNELS_H

#include "ref/kernels/kernels.h"
#include "traces/option/program.h"

/* KVREPLAY_ISA, for kv_program.environment. */
#define KV_ENVIRONMENT_ISA                                                     \
  {                                                                            \
    "KVREPLAY_ISA", "portable, avx2 or avx512: the kernel set to use instead " \
                    "of the best one; never changes a number"                  \
  }

/* *out: the kernel set that KVREPLAY_ISA names, else the best one that this
 * processor has; prints a remark on standard error if it is not the fastest.
 * KV_USAGE: there is none of that name, or the processor lacks it. Call it
 * once, before anything is computed. */
kv_rc kv_choose_kernels(const kv_kernels **out, kv_err *e);

/* The number of threads that --jobs means (0: one a processor) and that can be
 * made; if those are fewer, says so once. */
int kv_choose_threads(int jobs);

/* Writes the lines of --version that are of computing, kernel set in use, CUDA
 * and BLIS, into lines[0..size), for kv_program.version. KV_USAGE as above. */
kv_rc kv_version_kernels(size_t size, char *lines, kv_err *e);

#endif
