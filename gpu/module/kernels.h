/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a device's table that are the same on every device: methods and
 * formats by name. The list is generated from methods.mk (gpu/methods/list.h).
 * The same source is compiled into the program, for the executor, and into the
 * CUDA module, each time with the kernels linked beside it.
 */
#ifndef KV_GPU_KERNELS_H
#define KV_GPU_KERNELS_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By the method's name ("oracle-topk"); NULL: no twin. */
const kv_gpu_hooks *kv_gpu_hooks_named(const char *method);
/* By the format's name ("channel"); -1: its codes are unknown here. */
int kv_gpu_format_named(const char *name);

#ifdef __cplusplus
}
#endif

#endif
