/* SPDX-License-Identifier: Apache-2.0
 *
 * A small trace for tests, right in everything, and the same with one thing
 * changed: a metadata pair or some tensors.
 */
#ifndef KV_TESTS_TRACEFILE_H
#define KV_TESTS_TRACEFILE_H

#include <stdint.h>

#include "traces/container/dtype.h"
#include "traces/trace/trace.h"

enum { LAYERS = 2, HEADS = 4, KV = 2, DIM = 8, TOKENS = 10, PROMPT = 6 };

typedef struct field {
  const char *name;
  kv_st_dtype dtype;
  int rank; /* -1: the trace goes without it */
  uint64_t shape[4];
  const void *data; /* NULL: small numbers */
} field;

typedef struct meta {
  const char *key, *value; /* value NULL: the trace goes without it */
} meta;

/* What stands in the right trace. */
enum { FIELDS = 10, METAS = 14, MORE = 8 };
extern const field right_fields[FIELDS];
extern const meta right_metas[METAS];

/* Writes t.safetensors, or its shards: m (may be NULL) and n <= MORE tensors
 * take the place of those of the same name, or are added. */
void tracefile_write(const meta *m, int n, const field *f, uint64_t shard);

/* Pairs that every trace has besides, until this is NULL again; key NULL ends
 * them. */
extern const meta *tracefile_also;

/* Path of what was last written, to be written to by who writes others. */
extern char tracefile[600];

/* Opens it; a failure fails the test. */
kv_trace *tracefile_open(void);

/* Fails unless it is refused, by a sentence with its name, this name of a key
 * or tensor, and this reason. */
void tracefile_refused(const char *name, const char *reason);

kv_digest tracefile_identity(void);

/* True where two digests are equal. */
int same_digest(kv_digest a, kv_digest b);

#endif
