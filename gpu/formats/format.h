/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the formats of formats.mk, as slabs on the device use them; 0
 * means fp32 rows.
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
