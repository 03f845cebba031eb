/* SPDX-License-Identifier: Apache-2.0
 *
 * All backends by name: ref, always; emu, the kernels of gpu/ on the CPU;
 * cuda, the same kernels on a device.
 */
#ifndef KV_GPU_BACKENDS_H
#define KV_GPU_BACKENDS_H

#include "ref/backend/backend.h"

extern const kv_backend kv_backend_emu, kv_backend_cuda;

/* Finds a backend by name. NULL: there is none of that name (KV_USAGE, naming
 * all), or it cannot be used here (KV_RESOURCE, with the reason). */
const kv_backend *kv_backend_find(const char *name, kv_err *e);

/* Lists the backends that can be used here, ref first; returns how many (<=
 * room). */
int kv_backends_default(const kv_backend **out, int room);

#endif
