/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of replay read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_REPLAY_H
#define KV_REF_METHODS_REPLAY_H

#include "ref/decisions.h"
#include "ref/method.h"

typedef struct params {
  char file[KV_TEXT_MAX], name[KV_TEXT_MAX];
  int columns, meta;
  const kv_decisions *decisions; /* of file; lent by the engine before open */
} params;

#endif
