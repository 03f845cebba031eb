/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions files: what a method kept or attended, written by anyone, in
 * safetensors. The metadata has format=kvdecisions, version=1, name, trace
 * (the trace's identity in hex), kind = stored | view | stored+view,
 * head = kv | query (whose lists these are), unit = token | page:N, and
 * perhaps reindex (0|1), block (most prompt tokens that enter at once; absent:
 * the whole prompt), prompt_len (absent: the trace's). Per recorded layer L:
 *
 *   layers.L.steps     I32 [S]      tokens seen, ascending
 *   layers.L.indptr    I64 [S*H+1]  list of step s, head h: s*H+h .. +1
 *   layers.L.positions I32 [..]     token ids in lane order, or page numbers
 *
 * kind=stored: what each lane holds after that step's settling; view: what is
 * attended at that decode step. stored+view: these are the stored ones, in
 * tokens, and layers.L.view.steps, .indptr and .positions the views, in
 * `unit`, their heads in view_head (query where absent).
 */
#ifndef KV_TRACES_DECISIONS_H
#define KV_TRACES_DECISIONS_H

#include "ref/decisions.h"
#include "traces/trace.h"

typedef struct kv_decisions_file {
  kv_decisions decisions;
  char *path, *name;
  char trace[65]; /* identity in hex */
  int prompt_len; /* 0: the trace's */
} kv_decisions_file;

/* Reads, and proves that this trace, decoding from prompt_len on, can follow.
 * KV_INPUT where the file is malformed; KV_REFUSED where it is for another
 * trace or prompt, where a layer is missing, a step cannot be settled, or a
 * list is empty, names a token twice or one that is not live. Hashes the
 * trace unless its identity is cached. Cost: linear in the file. */
kv_rc kv_decisions_open(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e);
/* Reads only: the lists may hold anything, but stand at steps where there is
 * something to decide. For who judges them. */
kv_rc kv_decisions_read(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e);
void kv_decisions_close(kv_decisions_file *f); /* accepts NULL */

#endif
