/* SPDX-License-Identifier: Apache-2.0
 *
 * One cell replayed on a backend that a test has changed, for what a device
 * holds while it runs: beside the reference, whose digests it must have.
 */
#ifndef KV_TESTS_GPU_CELL_H
#define KV_TESTS_GPU_CELL_H

#include "sim/engine/replay.h"
#include "tests/made/made_up.h"
#include "traces/trace/small.h"

enum { GPUCELL_LAYERS = 2 };

/* Replays `text` with `budget` entries on the trace, whose prompt has `prompt`
 * tokens (0: its own). layouts: asked for beside it, or NULL; then the result's
 * first goes to *first. Fails the test where it does not run. */
typedef struct gpucell {
  const char *trace, *layouts;
  int prompt, budget;
  kv_layout_result *first;
} gpucell;
void gpucell_replay(const gpucell *c, const char *text,
                    const kv_backend *backend, kv_digest digest[3]);
/* Fails the test at the first digest that is another; `what` says of whom. */
void gpucell_must_match(const char *text, const char *what,
                        const kv_digest of_ref[3], const kv_digest of[3]);
/* Writes a trace of 4 heads over 2 KV heads of GPUCELL_LAYERS layers into the
 * scratch folder; `path` has room for 512 bytes. */
void gpucell_trace(const char *name, kv_dtype dtype, int d, int tokens,
                   int prompt, char *path);

#endif
