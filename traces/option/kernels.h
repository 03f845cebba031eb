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

/* The kernel set that KVREPLAY_ISA names, else the best one here; prints a
 * remark if there is one. */
kv_rc kv_choose_kernels(const kv_kernels **out, kv_err *e);

/* The number of threads that --jobs means (0: one a processor) and that can be
 * made; if those are fewer, says so once. */
int kv_choose_threads(int jobs);

/* Lines of --version: kernel set in use, CUDA, BLIS. */
kv_rc kv_version_kernels(size_t size, char *lines, kv_err *e);

#endif
