/* SPDX-License-Identifier: Apache-2.0
 *
 * What every command that writes one trace from another does: it keeps its
 * hands off the files that are read, carries metadata over, and copies bytes in
 * pieces between which an interrupt is heard. For convert.c and slim.c of this
 * folder; memory is nothing but the writer's.
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
 * files of `from`. doing: what is done to the trace, as "converted". */
kv_rc kv_rewrite_apart(const kv_trace *from, const char *doing,
                       const char *path, kv_err *e);

/* Gives the writer all metadata of the trace; call before what replaces some.
 * KV_RESOURCE: memory. */
kv_rc kv_rewrite_meta(const kv_rewrite *w, kv_err *e);

/* Appends bytes to the result. KV_RESOURCE: as kv_st_writer_append, or
 * *w->stop was set. */
kv_rc kv_rewrite_bytes(const kv_rewrite *w, uint64_t bytes, const void *data,
                       kv_err *e);

/* KV_RESOURCE, with a sentence, once *stop, which may be NULL, is not 0. */
kv_rc kv_rewrite_go_on(const volatile sig_atomic_t *stop, kv_err *e);

#endif
