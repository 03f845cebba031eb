/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores every wrong decision of a layer, in the order found, for `kvreplay
 * grade --all`: some 80 bytes each, and 16 for each run of tokens that it took
 * or left.
 */
#ifndef KV_SIM_WRONGS_H
#define KV_SIM_WRONGS_H

#include <stddef.h>

#include "sim/grade/judge.h"

typedef struct kv_wrongs {
  char *bytes;
  size_t used, room;
  bool no_memory; /* memory ended; later ones are missing */
} kv_wrongs;      /* zeroed: none */

void kv_wrongs_add(kv_wrongs *w, const kv_judged *j);
void kv_wrongs_free(kv_wrongs *w);

/* Iterates: *at starts at 0 and is moved to the next one. False past the end.
 */
bool kv_wrongs_next(const kv_wrongs *w, size_t *at, kv_judged *out);

#endif
