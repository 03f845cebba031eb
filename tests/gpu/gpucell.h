/* SPDX-License-Identifier: Apache-2.0
 *
 * One cell replayed on the test's own backend, for tests that inspect what a
 * device holds while it runs; and its digests compared with the reference's. C,
 * with cmocka.
 */
#ifndef KV_TESTS_GPU_CELL_H
#define KV_TESTS_GPU_CELL_H

#include "sim/replay/engine/replay.h"
#include "tests/made/made_up.h"
#include "tests/support/rig.h"
#include "traces/trace/small.h"

/* Layers of gpucell_trace. */
enum { GPUCELL_LAYERS = 2 };

typedef struct gpucell {
  const char *trace;       /* path */
  const char *layouts;     /* what --layout would ask for, or NULL */
  int prompt, budget;      /* tokens of the prompt, 0: the trace's; entries */
  kv_layout_result *first; /* gets the first layout's result; NULL: nobody's */
} gpucell;
/* Digests of a replay: journal, state, output, and one of the bytes held. */
enum { GPUCELL_ENDS = 4 };
/* Replays the specification `text` on the trace and fills in its digests.
 * Fails the test where it does not run. */
void gpucell_replay(const gpucell *c, const char *text,
                    const kv_backend *backend, kv_digest digest[GPUCELL_ENDS]);
/* The same for one layer, from the arrays of a case of the rig. */
void gpucell_layer(const rig_case *of, const char *text,
                   const kv_backend *backend, kv_digest digest[GPUCELL_ENDS]);
/* Fails the test at the first digest that is another; `what` says of whom. */
void gpucell_must_match(const char *text, const char *what,
                        const kv_digest of_ref[GPUCELL_ENDS],
                        const kv_digest of[GPUCELL_ENDS]);
/* Writes a trace of 4 heads over 2 KV heads of GPUCELL_LAYERS layers into the
 * scratch folder; `path` has room for 512 bytes. */
void gpucell_trace(const char *name, kv_dtype dtype, int d, int tokens,
                   int prompt, char *path);

#endif
