/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense: twin of ref/methods/dense.c. Everything stays, everything is
 * attended: there is no hook.
 */
#include "gpu/lane/method.cuh"

KV_GPU_HOOKS(dense, 0);
