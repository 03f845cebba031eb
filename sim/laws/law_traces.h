/* SPDX-License-Identifier: Apache-2.0
 *
 * The traces that `kvreplay lawcheck` uses: the user's files, and synthetic
 * ones, which are written to a temporary folder that close removes.
 */
#ifndef KV_SIM_LAW_TRACES_H
#define KV_SIM_LAW_TRACES_H

#include "sim/laws/lawcheck.h"
#include "traces/option/option.h"

enum { KV_LAW_TRACES = 64 };

typedef struct kv_law_traces {
  char folder[64];
  int n;
  struct {
    const char *name; /* as typed */
    char *file;       /* path of a synthetic one */
  } trace[KV_LAW_TRACES];
} kv_law_traces;

/* Opens the traces of the list, or makes all synthetic ones if it is empty.
 * Close also after a failure. */
kv_rc kv_law_traces_open(const kv_list *only, kv_lawcheck_stop *stop,
                         kv_law_traces *t, kv_err *e);
void kv_law_traces_close(kv_law_traces *t); /* accepts zeroed */

#endif
