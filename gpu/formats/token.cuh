/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "token" on the device: a block has one row, in which each run of
 * kv_minmax.group neighbouring elements shares scale and minimum. Kernels call
 * it through gpu/formats/format.cuh, which lists its functions; the format
 * delta codes latent vectors by it.
 */
#ifndef KV_GPU_FORMATS_TOKEN_CUH
#define KV_GPU_FORMATS_TOKEN_CUH

#include "gpu/formats/minmax.cuh"

/* false: elements of a row share a scale, not a channel of several rows. */
struct kv_gpu_format_token : kv_gpu_minmax<false> {};

#endif
