/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "channel" on the device, KIVI's keys: the rows of a block share
 * scale and minimum by channel (element).
 */
#ifndef KV_GPU_FORMATS_CHANNEL_CUH
#define KV_GPU_FORMATS_CHANNEL_CUH

#include "gpu/formats/minmax.cuh"

struct kv_gpu_format_channel : kv_gpu_minmax<true> {};

#endif
