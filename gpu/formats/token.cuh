/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "token" on the device: runs of the elements of a row, the block's
 * only one, share scale and minimum.
 */
#ifndef KV_GPU_FORMATS_TOKEN_CUH
#define KV_GPU_FORMATS_TOKEN_CUH

#include "gpu/formats/minmax.cuh"

struct kv_gpu_format_token : kv_gpu_minmax<false> {};

#endif
