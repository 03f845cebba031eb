/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that `kvreplay capacity` knows: sim/capacity/gpus.csv, compiled
 * in. Each number's source stands in that file.
 */
#ifndef KV_SIM_CAPACITY_GPU_H
#define KV_SIM_CAPACITY_GPU_H

#include "ref/ground/err.h"
#include <stdint.h>

typedef struct kv_gpu {
  const char *name, *title; /* "h100-80g"; its maker's words */
  int64_t bytes;            /* of memory, as a program finds it */
  double bandwidth;         /* bytes a second that its memory gives at most */
  double flops;             /* BF16 operations a second at most, dense; a
                               multiplication and an addition are two */
  const char *source;       /* where the numbers are from */
} kv_gpu;

/* *out: the device of that name, static. KV_USAGE, naming the nearest: there is
 * none; e is not NULL. */
kv_rc kv_gpu_find(const char *name, const kv_gpu **out, kv_err *e);
/* The i-th name from 0, NULL past the last: for completion and help. */
const char *kv_gpu_name(int i);

#endif
