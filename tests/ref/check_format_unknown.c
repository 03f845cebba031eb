/* SPDX-License-Identifier: Apache-2.0
 *
 * A format that a backend does not have is refused when a store opens, by a
 * sentence that names backend, format and method. The format is the test's
 * own: KIVI's for keys under another name, in a method that is KIVI but for
 * it. The reference reaches a format through its table and runs it, with the
 * digests of KIVI; a device would have to guess what its blocks hold.
 */
#include "gpu/host/backends.h"
#include "ref/formats/minmax.h"
#include "sim/ask/spec.h"
#include "sim/replay/engine/replay.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/small.h"
#include "traces/trace/trace.h"

#include <stdlib.h>
#include <string.h>

extern const kv_method kv_method_kivi; /* ref/methods/kivi.c */

static kv_trace *trace;
static kv_format unknown;
static kv_method shelver;

static const kv_method *only_shelver(int i) { return i == 0 ? &shelver : NULL; }

static kv_rc open_shelver(const kv_shape *shape, void *params, kv_needs *needs,
                          kv_err *e) {
  kv_rc rc = kv_method_kivi.open(shape, params, needs, e);
  needs->coding[0].format = &unknown;
  return rc;
}

/* One replay of kivi, or of what imitates it. */
static kv_rc replay(const kv_backend *backend, const kv_method *(*list)(int),
                    kv_cell *cell, kv_err *e) {
  kv_cell *each = cell;
  kv_spec spec = {0};
  bool stopped;
  kv_asked_cell asked = {.spec = &spec, .entries = -1};
  kv_replay_how how = {
      .backend = backend, .kernels = kv_kernels_best(), .threads = 1};
  kv_rc rc = kv_spec_parse(list, "kivi:group=4:residual=4", &spec, e);
  if (!rc) rc = kv_cell_open(trace, 0, kv_kernels_best(), &asked, cell, e);
  if (rc || !cell->runs) fail_msg("%s%s", e->text, cell->result.reason);
  rc = kv_replay(trace, &each, 1, &how, &stopped, e);
  kv_spec_free(&spec);
  return rc;
}

TEST(on_ref_it_runs) {
  kv_cell ours, kivi;
  kv_err e = {0};
  assert_int_equal(replay(&kv_backend_ref, only_shelver, &ours, &e), KV_OK);
  assert_int_equal(replay(&kv_backend_ref, kv_method_at, &kivi, &e), KV_OK);
  const kv_digest *a = &ours.result.output, *b = &kivi.result.output;
  assert_memory_equal(a, b, sizeof *a);
  kv_cell_close(&ours);
  kv_cell_close(&kivi);
}

TEST(on_emu_it_is_refused_by_name) {
  kv_cell cell;
  kv_err e = {0};
  const kv_backend *emu = kv_backend_find("emu", &e);
  if (!emu) skip(); /* a build without a C++ compiler */
  assert_int_equal(replay(emu, only_shelver, &cell, &e), KV_RESOURCE);
  assert_non_null(strstr(e.text, "backend emu"));
  assert_non_null(strstr(e.text, "format spill"));
  kv_cell_close(&cell);
}

static int make(void **state) {
  const kv_small small = {"spill", 2, 4, 2, 8, KV_F32, 16, 10};
  kv_err e = {0};
  if (scratch_make(state)) return 1;
  const char *path = scratch_path("spill.safetensors");
  unknown = kv_format_channel;
  unknown.name = "spill";
  shelver = kv_method_kivi;
  shelver.open = open_shelver;
  return kv_small_write(&small, 1, path, &e) || kv_trace_open(path, &trace, &e);
}

static int end(void **state) {
  kv_trace_close(trace);
  return scratch_remove(state);
}

int main(void) { return tests_run("format unknown", make, end); }
