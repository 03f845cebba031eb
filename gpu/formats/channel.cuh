/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "channel" on the device, KIVI's keys: a block is the coded rows of
 * up to kv_minmax.group entries, and in each channel (element) they share scale
 * and minimum. Kernels call it through gpu/formats/format.cuh, which lists its
 * functions.
 */
#ifndef KV_GPU_FORMATS_CHANNEL_CUH
#define KV_GPU_FORMATS_CHANNEL_CUH

#include "gpu/formats/minmax.cuh"

/* true: a channel of several rows shares, not elements of one row. */
struct kv_gpu_format_channel : kv_gpu_minmax<true> {};

#endif
