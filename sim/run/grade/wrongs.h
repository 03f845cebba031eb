/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores every wrong decision of a layer, in the order found, for `kvreplay
 * grade --all`: 64 bytes each, and 16 for each run of tokens that it took or
 * left.
 */
#ifndef KV_SIM_WRONGS_H
#define KV_SIM_WRONGS_H

#include <stddef.h>

#include "sim/run/grade/judge.h"

/* Zeroed: none. */
typedef struct kv_wrongs {
  char *bytes;       /* packed judgements */
  size_t used, room; /* bytes */
  bool no_memory;    /* memory ran out; later ones are missing */
} kv_wrongs;

/* Adds a copy of the judgement; sets w->no_memory if it cannot. */
void kv_wrongs_add(kv_wrongs *w, const kv_judged *j);
void kv_wrongs_free(kv_wrongs *w); /* accepts zeroed */

/* Reads them one after the other into *out: *at is 0 at first and advances.
 * False past the end. Of more than KV_MOST_APART runs, only the first. */
bool kv_wrongs_next(const kv_wrongs *w, size_t *at, kv_judged *out);

#endif
