/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the FORMATS of formats.mk, as slabs on a device use them
 * (kv_gpu_slab.format): KV_GPU_channel and so on. KV_GPU_ROWS, 0, means merged
 * rows, which are not coded. The numbers are a build's own and stored nowhere;
 * kv_device.format gives one by its name.
 */
#ifndef KV_GPU_FORMAT_H
#define KV_GPU_FORMAT_H

typedef enum kv_gpu_format {
  KV_GPU_ROWS,
#define KV_FORMAT(name) KV_GPU_##name,
#include "gpu/formats/list.h"
#undef KV_FORMAT
  KV_GPU_FORMATS
} kv_gpu_format;

#endif
