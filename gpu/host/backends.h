/* SPDX-License-Identifier: Apache-2.0
 *
 * All backends by name: ref, the CPU reference, always; emu, the kernels of
 * gpu/ on the CPU, if a C++ compiler built it; cuda, the same kernels on a
 * device, if its module, a driver and a device exist. The commands (sim/cli)
 * look a backend up here and pass it to the engine.
 */
#ifndef KV_GPU_BACKENDS_H
#define KV_GPU_BACKENDS_H

#include "ref/backend/backend.h"

/* Both work through the functions of a kv_device (gpu/shared/device.h); each is
 * usable only if kv_backend_find returns it. */
extern const kv_backend kv_backend_emu, kv_backend_cuda;

/* The backend of a name. NULL: no backend has that name (KV_USAGE; the sentence
 * lists all), or it cannot be used here (KV_RESOURCE, with the reason). The
 * first call for cuda loads the module and opens the device. */
const kv_backend *kv_backend_find(const char *name, kv_err *e);

/* Fills in out[0..room) with the backends that can be used here, ref first;
 * returns how many. It also tries cuda, and so may load the module. */
int kv_backends_default(const kv_backend **out, int room);

#endif
