/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions (ref/lane/decisions.h) that are not followed but judged: the file,
 * with lists that may hold anything, but stand at steps where there is
 * something to decide. Who follows decisions is the method `replay`, which
 * reads them as any method does its file.
 */
#ifndef KV_TRACES_DECISIONS_H
#define KV_TRACES_DECISIONS_H

#include "ref/lane/decisions.h"
#include "traces/decisions/asset.h"

typedef struct kv_decisions_file {
  kv_asset *asset;        /* its tensors, owned */
  kv_decisions_form form; /* which lists it has */
  const char *path;       /* for sentences */
  const char *name;       /* what its maker calls it */
} kv_decisions_file;

/* Opens the file for a replay of trace t with that prompt. KV_INPUT where the
 * file is malformed; KV_REFUSED where it is for another
 * trace or prompt, where a layer is missing or a step cannot be compressed.
 * Hashes the trace unless its identity is cached. Cost: linear in the file. */
kv_rc kv_decisions_open(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e);
void kv_decisions_close(kv_decisions_file *f); /* accepts NULL */

/* The lists of what is stored, and of what is viewed, in a recorded layer, by
 * the model's number; empty where the file has none. They live as long as f. */
kv_lists kv_decisions_stored(const kv_decisions_file *f, int layer);
kv_lists kv_decisions_view(const kv_decisions_file *f, int layer);

#endif
