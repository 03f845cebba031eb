/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of snapkv as its open (ref/methods/snapkv.c) has resolved
 * them, for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters.
 */
#ifndef KV_REF_METHODS_SNAPKV_H
#define KV_REF_METHODS_SNAPKV_H

#include "ref/parts/grow.h"

typedef struct params {
  int budget;          /* entries of a lane that stay, its ends included */
  kv_window_options w; /* what votes */
  kv_grow_options g;   /* compression while decoding */
} params;

#endif
