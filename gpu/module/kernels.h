/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of a device's table that are the same on every device: methods
 * and formats by name, those of methods.mk and formats.mk that are not ref-only
 * (gpu/methods/list.h, gpu/formats/list.h). The same source is compiled into
 * the program, for the executor, and into the CUDA module, each linked with its
 * kernels. The functions fail only as stated.
 */
#ifndef KV_GPU_KERNELS_H
#define KV_GPU_KERNELS_H

#include "gpu/shared/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kv_device.hooks: a method's, by its name ("oracle-topk"); NULL: it has no
 * twin. */
const kv_gpu_hooks *kv_gpu_hooks_named(const char *method);
/* kv_device.format: a kv_gpu_format, by its name ("channel"); -1: not known. */
int kv_gpu_format_named(const char *name);

#ifdef __cplusplus
}
#endif

#endif
