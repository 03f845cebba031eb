/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a small trace file tensor by tensor, fully correct, or with a metadata
 * pair or some tensors changed, for tests of what kv_trace_open refuses. The
 * file is in the folder of tests/support/scratch.h, whose setup must have run.
 * Any failure fails the running test.
 */
#ifndef KV_TESTS_TRACEFILE_H
#define KV_TESTS_TRACEFILE_H

#include <stdint.h>

#include "traces/container/dtype.h"
#include "traces/trace/trace.h"

/* Its shape; HEADS are query heads, KV KV heads, PROMPT is prompt_len. */
enum { LAYERS = 2, HEADS = 4, KV = 2, DIM = 8, TOKENS = 10, PROMPT = 6 };

/* A tensor. */
typedef struct field {
  const char *name;
  kv_st_dtype dtype;
  int rank; /* -1: the trace lacks it */
  uint64_t shape[4];
  const void *data; /* NULL: small numbers */
} field;

/* A metadata pair. */
typedef struct meta {
  const char *key, *value; /* value NULL: the trace lacks it */
} meta;

/* Tensors and metadata of the correct trace, and how many there are; MORE: the
 * most tensors that a test may change. */
enum { FIELDS = 10, METAS = 14, MORE = 8 };
extern const field right_fields[FIELDS];
extern const meta right_metas[METAS];

/* Writes t.safetensors: m (may be NULL) and f[n], n <= MORE, replace entries of
 * the same name, or are added. shard: most bytes of data in a file, so that it
 * is cut into shards; 0: one file. */
void tracefile_write(const meta *m, int n, const field *f, uint64_t shard);

/* Additional pairs of every trace, until this is NULL again; ends with key
 * NULL. */
extern const meta *tracefile_also;

/* Path of the trace last written. A test that writes one itself sets it. */
extern char tracefile[600];

/* Opens it; for kv_trace_close. */
kv_trace *tracefile_open(void);

/* Fails unless opening it is refused with KV_INPUT, by a sentence that contains
 * the file's name, `name` of a key or tensor, and `reason`. */
void tracefile_refused(const char *name, const char *reason);

/* Its identity. */
kv_digest tracefile_identity(void);

/* 1 if two digests are equal. */
int same_digest(kv_digest a, kv_digest b);

#endif
