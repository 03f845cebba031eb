/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line options of programs that compute: the kernel set, which the
 * environment variable KVREPLAY_ISA selects, and the number of threads. Neither
 * changes a number of any result.
 */
#ifndef KV_TRACES_OPTION_KERNELS_H
#define KV_TRACES_OPTION_KERNELS_H

#include "ref/kernels/kernels.h"
#include "traces/option/program.h"

/* An entry of kv_program.environment: the variable's help. */
#define KV_ENVIRONMENT_ISA                                                     \
  {                                                                            \
    "KVREPLAY_ISA", "portable, avx2 or avx512: the kernel set (default: the "  \
                    "fastest); never changes a number"                         \
  }

/* *out: the kernel set that KVREPLAY_ISA names, or else the fastest that this
 * processor has. If the processor lacks the named set, *out is the next lower
 * one, and each call says so on standard error. Call it before anything is
 * computed. KV_USAGE: no set has that name. */
kv_rc kv_choose_kernels(const kv_kernels **out, kv_err *e);

/* The number of threads for --jobs `jobs` (0: one a processor), or fewer if not
 * as many can be started; the first time it is fewer, prints a remark. */
int kv_choose_threads(int jobs);

/* For kv_program.version: writes three lines into lines[size]: the kernel set
 * in use, CUDA, which is always "no", and whether BLIS is built in. KV_USAGE as
 * in kv_choose_kernels. */
kv_rc kv_version_kernels(size_t size, char *lines, kv_err *e);

#endif
