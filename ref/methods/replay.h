/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of replay read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_REPLAY_H
#define KV_REF_METHODS_REPLAY_H

#include "ref/lane/decisions.h"
#include "ref/lane/method.h"

typedef struct params {
  kv_file file;
  char name[KV_TEXT_MAX];
  int columns, meta;
  kv_decisions_form form; /* of file */
} params;

#endif
