/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of pyramidkv read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_PYRAMIDKV_H
#define KV_REF_METHODS_PYRAMIDKV_H

#include "ref/parts/parts.h"

enum { NO, YES }; /* exact_total */

typedef struct params {
  int budget;
  kv_window_options w;
  int beta, exact_total;
} params;

#endif
