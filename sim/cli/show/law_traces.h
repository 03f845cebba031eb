/* SPDX-License-Identifier: Apache-2.0
 *
 * The traces that `kvreplay lawcheck` uses: the user's files, and synthetic
 * ones (made:NAME), which are written to a temporary folder that close removes.
 * Open it once, before any law is checked. One thread, and no other children.
 */
#ifndef KV_SIM_LAW_TRACES_H
#define KV_SIM_LAW_TRACES_H

#include "sim/run/laws/lawcheck.h"
#include "traces/option/option.h"

enum { KV_LAW_TRACES = 64 }; /* most traces */

typedef struct kv_law_traces {
  char folder[64]; /* for the synthetic ones; "": it could not be made */
  int n;
  struct {
    const char *name; /* as typed, or made:NAME; borrowed */
    char *file; /* path of a synthetic one, owned; NULL: the name is the path */
  } trace[KV_LAW_TRACES]; /* the first n, in the order of the list */
} kv_law_traces;

/* Takes the traces of the list into *t, zeroed before. A file is opened once to
 * check it; made:NAME is made; an empty list means all synthetic ones. They are
 * made in child processes until stop() returns true. KV_USAGE: more than
 * KV_LAW_TRACES, or no such made:NAME. KV_INPUT: a trace is bad. KV_RESOURCE:
 * memory, disk (TMPDIR), or interrupted. Close it, also after a failure. */
kv_rc kv_law_traces_open(const kv_list *only, kv_lawcheck_stop *stop,
                         kv_law_traces *t, kv_err *e);
void kv_law_traces_close(kv_law_traces *t); /* accepts zeroed */

#endif
