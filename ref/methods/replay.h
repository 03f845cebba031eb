/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of replay (ref/methods/replay.c), read by both twins after
 * open has resolved them: the file is read, and form says what is in it.
 */
#ifndef KV_REF_METHODS_REPLAY_H
#define KV_REF_METHODS_REPLAY_H

#include "ref/lane/decisions.h"
#include "ref/lane/method.h"

typedef struct params {
  kv_file file;           /* the decisions */
  char name[KV_TEXT_MAX]; /* the label of its rows: as typed, else as the file
                             says, else "" */
  int columns;            /* numbers an entry that are declared, each charged */
  int meta;               /* bytes a lane that are declared */
  kv_decisions_form form; /* of file */
} params;

#endif
