/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one trace from a folder of chunks, for `kvtrace pack`: files
 * NAME.chunks (traces/container/chunks.h), one for each rank and layer, and
 * trace.json with what no rank knows: metadata, tokens, frequencies
 * (traces/PACK.md). A KV head that several ranks hold is compared, number by
 * number, and stored once. kv_pack_open finds every other fault of a folder
 * before anything is written: holes, overlaps, missing heads or layers, other
 * sizes, metadata that make no trace.
 *
 *   open, facts, write, close
 *
 * Memory: the rows of one layer, some megabytes, and a few hundred bytes a
 * file. One thread at a time.
 */
#ifndef KV_TRACES_PACK_H
#define KV_TRACES_PACK_H

#include <signal.h>
#include <stdint.h>

#include "ref/ground/err.h"

typedef struct kv_pack kv_pack;

/* What a folder holds. */
typedef struct kv_pack_facts {
  int files, layers, tokens;
  int copies;          /* KV heads that a further rank also holds, over all
                          layers */
  int64_t bytes;       /* that kv_pack_write will read */
  const char **inputs; /* [files + 1] their paths, and that of trace.json */
} kv_pack_facts;

/* How to write; zeroed: silently, and to the end. */
typedef struct kv_pack_how {
  const volatile sig_atomic_t *stop; /* not 0: give up; may be NULL */
  /* Called with the bytes read since the last call; may be NULL. */
  void (*tick)(void *self, int64_t bytes);
  void *self; /* first argument of tick */
} kv_pack_how;

/* Reads trace.json and the head of every chunk in folder. tokens: how many of
 * the first tokens to take; 0: as many as trace.json lists, else as the files
 * have, which then must be complete and agree. KV_INPUT, naming file, layer,
 * tokens or heads: something is missing, twice or wrong. KV_RESOURCE: memory.
 * *out is NULL after a failure. */
kv_rc kv_pack_open(const char *folder, int tokens, kv_pack **out, kv_err *e);
void kv_pack_close(kv_pack *p); /* accepts NULL */

/* What the folder contains; it belongs to p. */
const kv_pack_facts *kv_pack_found(const kv_pack *p);

/* Writes the trace to path, NAME.safetensors, layer by layer. KV_INPUT: two
 * ranks differ in a KV head that both hold, a number is NaN or Inf, or a file
 * was changed meanwhile. KV_USAGE: path must not be written
 * (traces/container/newfile.h). KV_RESOURCE: memory or disk, or *how->stop was
 * set. After a failure nothing is left behind. */
kv_rc kv_pack_write(const kv_pack *p, const kv_pack_how *how, const char *path,
                    kv_err *e);

#endif
