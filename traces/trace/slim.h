/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a smaller trace from a full one, for `kvtrace slim`: q and o only of
 * the last rows of the prompt and of decode steps, some of the layers, no o, no
 * token ids (kv_keep). A layer that loses query rows of the prompt gets their
 * column sums instead, in the canonical arithmetic, so that a method which
 * reads sums decides to the bit as on the full trace. A layer that already has
 * sums instead of rows keeps them. K, V and everything else are copied byte for
 * byte. Metadata gains `slimmed`, what was left out, and, without token ids,
 * `request_digest`, which identifies the request (kv_trace_request).
 *
 * Written as a stream. Memory is the current layer, mapped from its file, the
 * sums of one KV head and, while sums are computed, what kv_colsum_head takes
 * (traces/trace/colsum.h). The result does not depend on the number of threads.
 */
#ifndef KV_TRACES_SLIM_H
#define KV_TRACES_SLIM_H

#include "ref/kernels/kernels.h"
#include "traces/trace/keep.h"
#include "traces/trace/trace.h"

#include <signal.h>

typedef struct kv_slim {
  /* Set by the caller: */
  const kv_trace *from;
  const kv_keep *keep;
  const volatile sig_atomic_t *stop; /* not 0: give up; may be NULL */
  /* Called with the bytes written since the last call; may be NULL. */
  void (*tick)(void *self, int64_t bytes);
  void *self; /* first argument of tick */
  /* Set by kv_slim_write: */
  int layers;    /* layers written */
  int sums_made; /* how many of them got column sums */
} kv_slim;

/* Bytes of all tensors of the result; tick reports as many. */
int64_t kv_slim_bytes(const kv_slim *s);

/* Writes the result to path, NAME.safetensors. KV_USAGE: `keep` leaves nothing
 * out, names a layer that is not recorded, or keeps no query row of a layer; or
 * path is one of the trace's own files, or must not be written
 * (traces/container/newfile.h). KV_INPUT: as kv_trace_scan_layer and
 * kv_colsum_head, or a layer has neither the rows nor the sums that are needed.
 * KV_RESOURCE: memory or disk, or *stop was set. After a failure nothing is
 * left behind. */
kv_rc kv_slim_write(kv_slim *s, const kv_kernels *kernel, const char *path,
                    kv_err *e);

#endif
