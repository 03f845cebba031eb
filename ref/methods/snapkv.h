/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of snapkv read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_SNAPKV_H
#define KV_REF_METHODS_SNAPKV_H

#include "ref/parts/grow.h"

typedef struct params {
  int budget;
  kv_window_options w;
  kv_grow_options g;
} params;

#endif
