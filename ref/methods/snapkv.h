/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of snapkv: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/snapkv.c).
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
