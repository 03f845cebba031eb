/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a file of decisions (which tokens a cache held or a query attended;
 * format in ref/lane/decisions.h) to judge them, as `kvreplay grade` does. Its
 * lists may name any tokens, including those that no cache would still hold. To
 * follow decisions, run the method `replay`, which reads the file itself.
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
 * prompt_len on. If the file names a trace, hashes t unless its identity is
 * cached. Cost: linear in the file. After a failure *out is unchanged.
 * KV_INPUT: the file is malformed. KV_REFUSED: it is for another trace or
 * prompt, lacks a layer, has a step at which nothing can be decided, or has
 * views of KV heads while every query head stores its own. KV_RESOURCE: memory.
 */
kv_rc kv_decisions_open(const char *path, const kv_trace *t, int prompt_len,
                        kv_decisions_file **out, kv_err *e);
void kv_decisions_close(kv_decisions_file *f); /* accepts NULL */

/* The lists of stored and of viewed tokens on a recorded layer (the model's
 * number); steps is 0 if the file has none of that kind. They point into f. */
kv_lists kv_decisions_stored(const kv_decisions_file *f, int layer);
kv_lists kv_decisions_view(const kv_decisions_file *f, int layer);

#endif
