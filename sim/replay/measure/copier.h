/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes what one layer gave to an account (ledger, layouts, fidelity) as
 * bytes, or reads it back. Each account passes its memory to kv_copy, always in
 * the same order; sim/replay/engine/cell.h joins the accounts of a cell. The
 * bytes are in this machine's number formats. Cannot fail.
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

/* Copies the n bytes at `at`. They may include atomic counters, because no
 * other thread may use them meanwhile. */
static inline void kv_copy(kv_copier *x, void *at, size_t n) {
  if (x->out) memcpy(x->out + x->size, at, n);
  if (x->from) memcpy(at, x->from + x->size, n);
  x->size += n;
}

#endif
