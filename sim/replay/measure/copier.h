/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes what one layer gave to an account (ledger, layouts, fidelity) as bytes,
 * or gives it back: each account names its memory to kv_copy, always in the
 * same order. sim/replay/engine/cell.h puts the accounts of a cell together.
 * The bytes are in this machine's number formats. Cannot fail.
 */
#ifndef KV_SIM_COPIER_H
#define KV_SIM_COPIER_H

#include <string.h>

/* At most one of out and from is set; with neither, bytes are only counted. */
typedef struct kv_copier {
  char *out;        /* bytes are written here, or NULL */
  const char *from; /* or read from here, or NULL */
  size_t size;      /* bytes so far; 0 at first */
} kv_copier;

/* Copies the n bytes at `at`, which nobody else uses meanwhile, so that atomic
 * counters may be among them. */
static inline void kv_copy(kv_copier *x, void *at, size_t n) {
  if (x->out) memcpy(x->out + x->size, at, n);
  if (x->from) memcpy(at, x->from + x->size, n);
  x->size += n;
}

#endif
