/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a file of decisions (which tokens a cache held or a query attended to;
 * form in ref/lane/decisions.h) in order to judge them, as `kvreplay grade`
 * does. Its lists may name any tokens, also such as no cache would still have.
 * To follow decisions, run the method `replay`, which reads the file itself.
 */
#ifndef KV_TRACES_DECISIONS_H
#define KV_TRACES_DECISIONS_H

#include "ref/lane/decisions.h"
#include "traces/decisions/asset.h"

typedef struct kv_decisions_file {
  kv_asset *asset;        /* its tensors, owned */
  kv_decisions_form form; /* its metadata: which lists it has, of which heads */
  const char *path;       /* shortened, for messages */
  const char *name;       /* metadata `name`, or NULL */
} kv_decisions_file;

/* Opens the file at path for a replay of trace t that decodes from token
 * prompt_len on. Hashes the trace unless its identity is cached, where the file
 * names one. Cost: linear in the file. After a failure *out is not written.
 * KV_INPUT: the file is malformed; KV_REFUSED: it is for another trace or
 * prompt, lacks a layer, has a step at which nothing can be decided, or has
 * views of KV heads where every query head stores its own; KV_RESOURCE: memory.
 */
kv_rc kv_decisions_open(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e);
void kv_decisions_close(kv_decisions_file *f); /* accepts NULL */

/* The lists of stored tokens and of viewed ones on a recorded layer, given by
 * the model's layer number; steps is 0 where the file has none of that kind.
 * They point into f. */
kv_lists kv_decisions_stored(const kv_decisions_file *f, int layer);
kv_lists kv_decisions_view(const kv_decisions_file *f, int layer);

#endif
