/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by commands that write one trace from another (convert.c and slim.c of
 * this folder): never overwrite files that are read, copy metadata, and copy
 * bytes in pieces between which an interrupt is noticed. Uses no memory except
 * the writer's.
 */
#ifndef KV_TRACES_REWRITE_H
#define KV_TRACES_REWRITE_H

#include <signal.h>

#include "ref/ground/err.h"
#include "traces/container/writer.h"
#include "traces/trace/trace.h"

typedef struct kv_rewrite {
  const kv_trace *from;
  kv_st_writer *out;
  const volatile sig_atomic_t *stop; /* not 0: give up; may be NULL */
} kv_rewrite;

/* KV_USAGE if a result at path, or a shard of it, would replace one of the
 * files of `from`. doing: what happens to the trace, as "converted". */
kv_rc kv_rewrite_apart(const kv_trace *from, const char *doing,
                       const char *path, kv_err *e);

/* Passes all metadata of the trace to the writer; call it before replacing any.
 * KV_RESOURCE: memory. */
kv_rc kv_rewrite_meta(const kv_rewrite *w, kv_err *e);

/* Appends bytes to the result. KV_RESOURCE: as kv_st_writer_append, or
 * *w->stop was set. */
kv_rc kv_rewrite_bytes(const kv_rewrite *w, uint64_t bytes, const void *data,
                       kv_err *e);

/* KV_RESOURCE, with a sentence, once *stop, which may be NULL, is not 0. */
kv_rc kv_rewrite_go_on(const volatile sig_atomic_t *stop, kv_err *e);

#endif
