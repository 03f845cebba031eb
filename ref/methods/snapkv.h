/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of snapkv, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_SNAPKV_H
#define KV_REF_METHODS_SNAPKV_H

#include "ref/lane/params.h"
#include "ref/parts/grow.h"

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression, window included; must be given") \
  P(PART, kv_window_options w, KV_WINDOW_PARAMS(params, w, 1))                 \
  P(PART, kv_grow_options g, KV_GROW_PARAMS(params, g))
KV_PARAMS(PARAMS);

#endif
