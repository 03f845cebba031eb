/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cell takes of a device's memory, by formula. Walked step by step, a
 * cell has as many stores open as it has layers: all of them share one log of
 * rewritten rows, the largest thing that a method that rewrites needs, and room
 * for logits and probabilities, the largest of long prompts. Of a coding only
 * the sides that it is for have blocks. Cells share the room but no log, and
 * give the digests of the reference.
 */
#include "ref/formats/minmax.h"
#include "sim/ask/spec.h"
#include "sim/replay/engine/replay.h"
#include "tests/laws/cells.h"
#include "tests/support/backend/gpudevice.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/small.h"
#include "traces/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
  TOKENS = 120,
  PROMPT = 90,
  HEADS = 4,
  LANES = 2,
  D = 32,
  BUDGET = 40,
  MANY = 6,
  GROUP = 8,
  CELLS = 2
};
#define KIVI "kivi:group=8:residual=16"

static const kv_backend *backend;

/* --- a replay ------------------------------------------------------------ */

/* Replays cells over so many layers, all of them at once; their state digests.
 */
static gpudevice_count replay(const kv_backend *on, int layers, int n,
                              const char *const *text, kv_digest *state) {
  const kv_small small = {"bytes", layers, HEADS,  LANES,
                          D,       KV_F32, TOKENS, PROMPT};
  const char *path = scratch_path("bytes.safetensors");
  kv_trace *t = NULL;
  kv_cell cell[CELLS], *each[CELLS];
  kv_err e = {0};
  bool stopped;
  kv_replay_how how = {.backend = on,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .by_steps = true};
  if (kv_small_write(&small, 3, path, &e)) fail_msg("%s", e.text);
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < n; i++)
    cells_must(kv_method_at, t, 0, text[i], BUDGET, each[i] = &cell[i]);
  gpudevice_reset();
  if (kv_replay(t, each, n, &how, &stopped, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < n; i++) {
    if (!kv_result_ran(&cell[i].result)) fail_msg("%s", cell[i].result.reason);
    if (state) state[i] = cell[i].result.state;
    kv_cell_close(&cell[i]);
  }
  kv_trace_close(t);
  assert_int_equal(gpudevice_held(), 0);
  return gpudevice_counted();
}

/* Bytes of device memory; each report has as many as its pinned copy. */
static int64_t taken(int layers, const char *text, bool reports) {
  gpudevice_count c = replay(backend, layers, 1, &text, NULL);
  return c.taken - (reports ? 0 : c.pinned);
}

static void equals(const char *what, int64_t is, int64_t should) {
  if (is != should)
    fail_msg("%s: %" PRId64 " bytes, not %" PRId64, what, is, should);
}

/* --- formulas ------------------------------------------------------------ */

/* So many rewritten rows a lane: an id, K and V. */
static int64_t log_of(int64_t rows) {
  return LANES * rows * (4 + 4 * (int64_t)(D + D));
}

/* Logits and probabilities of 16 rows; places of tokens come in sixteens. */
static int64_t logits_of(void) {
  return 2 * 16 * HEADS * ((TOKENS + 15) / 16 * 16) * 4;
}

/* A merge rewrites a row and drops one; a recode is reckoned with twice. */
TEST(shared) {
  static const struct {
    const char *spec;
    int64_t rows;
  } all[] = {{"zsmerge", TOKENS + 64}, {KIVI, 2 * TOKENS + 64}, {"h2o", 0}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int64_t once = log_of(all[i].rows) + logits_of();
    int64_t one = taken(1, all[i].spec, true) - once;
    equals(all[i].spec, taken(MANY, all[i].spec, true), MANY * one + once);
  }
}

/* A block's index among the free, members, those alive, whether it is new, and
 * its bytes. */
static int64_t slab_of(const kv_format *f, const kv_minmax *m, int64_t blocks) {
  kv_coded_size size = f->size(m, f->members(m), D);
  int64_t block = (int64_t)(size.codes + size.metadata + 15) / 16 * 16;
  return blocks * (4 + 2 + 2 + 4 + block);
}

/* kivi beside dense: parameters and the settings of both codings; of a lane
 * workspace, and blocks: groups of keys, values one by one, and one more of
 * each. Their pools of unchanged rows have as many pages. */
TEST(sides) {
  static const kv_minmax m = {2, GROUP, 0};
  int64_t layer = (int64_t)kv_method_named("kivi")->params_size - 1;
  layer += 2 * (int64_t)sizeof m;
  int64_t lane = GROUP * 4 + 64;
  lane += slab_of(&kv_format_channel, &m, TOKENS / GROUP + 2);
  lane += slab_of(&kv_format_token, &m, TOKENS + 1);
  for (int layers = 1; layers <= MANY; layers += MANY - 1)
    equals("kivi without dense",
           taken(layers, KIVI, false) - taken(layers, "dense", false),
           log_of(2 * TOKENS + 64) + layers * (layer + LANES * lane));
}

/* --- digests ------------------------------------------------------------- */

TEST(cells_apart) {
  static const char *const both[CELLS] = {KIVI, "zsmerge"};
  kv_digest here[CELLS], there[CELLS];
  replay(backend, MANY, CELLS, both, here);
  replay(&kv_backend_ref, MANY, CELLS, both, there);
  for (int i = 0; i < CELLS; i++)
    if (memcmp(&here[i], &there[i], sizeof here[i]))
      fail_msg("%s: another state", both[i]);
}

int main(void) {
  backend = gpudevice_open();
  if (!backend) return 77;
  return tests_run("gpu_bytes", scratch_make, scratch_remove);
}
