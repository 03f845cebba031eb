/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA module's host part, word for word, over the runtime beside this.
 */
#include "tests/cudart/cudart.h"

extern "C" bool kv_gpu_starts(int *tries);
extern "C" const kv_device *kv_device_module(const char **why);

#include "gpu/module/cuda.cu"
