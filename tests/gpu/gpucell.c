/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell on a changed backend: gpucell.h.
 */
#include "tests/gpu/gpucell.h"
#include "tests/laws/cells.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kv_digest digest_of(const kv_bytes *b) {
  kv_sha256 s;
  kv_sha256_init(&s);
  kv_sha256_add(&s, b, sizeof *b);
  return kv_sha256_end(&s);
}

void gpucell_replay(const gpucell *of, const char *text,
                    const kv_backend *backend, kv_digest digest[GPUCELL_ENDS]) {
  const kv_replay_how how = {.backend = backend, .threads = 1};
  kv_trace *t = NULL;
  kv_cell cell, *each = &cell;
  kv_layout_list layouts = {0};
  kv_err e = {0};
  if (kv_trace_open(of->trace, &t, &e)) fail_msg("%s", e.text);
  cells_must(made_up_at, t, of->prompt, text, of->budget, &cell);
  if (of->layouts && (kv_layouts_parse(of->layouts, &layouts, &e) ||
                      kv_cell_lay_out(&cell, &layouts, &e)))
    fail_msg("%s", e.text);
  cells_replay(t, 1, &each, how);
  if (!kv_result_ran(&cell.result))
    fail_msg("%s: %s", text, cell.result.reason);
  digest[0] = cell.result.journal;
  digest[1] = cell.result.state;
  digest[2] = cell.result.output;
  digest[3] = digest_of(&cell.result.totals.end);
  if (of->first) *of->first = cell.result.layout[0];
  kv_cell_close(&cell);
  kv_layout_list_free(&layouts);
  kv_trace_close(t);
}

void gpucell_layer(const rig_case *of, const char *text,
                   const kv_backend *backend, kv_digest digest[GPUCELL_ENDS]) {
  rig_case c = *of;
  kv_bytes bytes = {0};
  c.backend = backend;
  rig *r = rig_open(&c, text);
  rig_to(r, c.n_tokens);
  for (int i = 0; i < rig_lanes(r); i++) kv_lane_bytes(rig_lane(r, i), &bytes);
  kv_layer_digests d = rig_digests(r);
  rig_close(r);
  digest[0] = d.journal;
  digest[1] = d.state;
  digest[2] = d.output;
  digest[3] = digest_of(&bytes);
}

void gpucell_must_match(const char *text, const char *what,
                        const kv_digest of_ref[GPUCELL_ENDS],
                        const kv_digest of[GPUCELL_ENDS]) {
  static const char *const name[] = {"journal", "state", "output",
                                     "number of bytes"};
  for (int i = 0; i < GPUCELL_ENDS; i++)
    if (memcmp(&of_ref[i], &of[i], sizeof *of))
      fail_msg("%s, %s: the %s differs from the reference's", text, what,
               name[i]);
}

void gpucell_trace(const char *name, kv_dtype dtype, int d, int tokens,
                   int prompt, char *path) {
  const kv_small t = {name, GPUCELL_LAYERS, 4, 2, d, dtype, tokens, prompt};
  kv_err e = {0};
  char file[64];
  snprintf(file, sizeof file, "%s.safetensors", name);
  snprintf(path, 512, "%s", scratch_path(file));
  remove(path);
  if (kv_small_write(&t, 3, path, &e)) fail_msg("%s", e.text);
}
