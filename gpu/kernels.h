/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device's table says alike on every device: the twins by name. The
 * list is generated from methods.mk (gpu/methods/list.h); the same file goes
 * into the program, for the executor, and into the CUDA module, each with the
 * kernels that stand beside it.
 */
#ifndef KV_GPU_KERNELS_H
#define KV_GPU_KERNELS_H

#include "gpu/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By the method's name ("oracle-topk"); NULL: no twin. */
const kv_gpu_hooks *kv_gpu_hooks_named(const char *method);

#ifdef __cplusplus
}
#endif

#endif
