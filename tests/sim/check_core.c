/* SPDX-License-Identifier: Apache-2.0
 *
 * The core alone: ref, and what of sim is asked for and replayed. This program
 * links neither what reads files nor a library (`make core`). It replays a
 * trace that it makes in memory, and sets digests against recorded ones, a
 * method of the whole budget against dense, and bytes against the shape.
 */
#include "ref/ground/formula.h"
#include "sim/replay/engine/replay.h"
#include "tests/support/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 4, LANES = 2, DIM = 16, TOKENS = 96, PROMPT = 64 };

/* Multiples of 2^-6 in -2..2: exact in F32. */
static void fill(uint64_t seed, size_t n, float *out) {
  for (size_t i = 0; i < n; i++)
    out[i] = (float)(int64_t)(kv_mix(seed << 32 | i) % 257) / 64 - 2;
}

static float q[LAYERS][HEADS * TOKENS * DIM];
static float k[LAYERS][LANES * TOKENS * DIM], v[LAYERS][LANES * TOKENS * DIM];
static kv_recorded recorded[LAYERS];
static const kv_trace made = {.path = "made",
                              .name = "made",
                              .shape = {.n_layers = LAYERS,
                                        .n_heads = HEADS,
                                        .n_kv_heads = LANES,
                                        .d = DIM,
                                        .d_v = DIM,
                                        .n_tokens = TOKENS,
                                        .prompt_len = PROMPT,
                                        .dtype = KV_F32,
                                        .scale = 0.25f},
                              .rope_scale = 1,
                              .n_layers = LAYERS,
                              .layer = recorded};

static int make_trace(void **state) {
  (void)state;
  for (int l = 0; l < LAYERS; l++) {
    uint64_t seed = 3 * (uint64_t)l;
    fill(seed + 1, HEADS * TOKENS * DIM, q[l]);
    fill(seed + 2, LANES * TOKENS * DIM, k[l]);
    fill(seed + 3, LANES * TOKENS * DIM, v[l]);
    recorded[l].data = (kv_layer_data){.layer = l,
                                       .q = q[l],
                                       .k = k[l],
                                       .v = v[l],
                                       .q_dtype = KV_F32,
                                       .n_rows = TOKENS};
  }
  return 0;
}

static void open_cell(const char *text, int entries, kv_cell *cell) {
  kv_spec spec = {0};
  kv_asked_cell asked = {.spec = &spec, .entries = entries};
  if (kv_spec_parse(kv_method_at, text, &spec, &told) ||
      kv_cell_open(&made, 0, kv_kernels_best(), &asked, cell, &told))
    fail_msg("%s: %s", text, told.text);
  kv_spec_free(&spec);
}

static void run(const char *text, int entries, kv_cell *cell) {
  kv_replay_how how = {.backend = &kv_backend_ref,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .fidelity = true};
  bool stopped;
  open_cell(text, entries, cell);
  if (!cell->runs) fail_msg("%s: %s", text, cell->result.reason);
  if (kv_replay(&made, &cell, 1, &how, &stopped, &told))
    fail_msg("%s: %s", text, told.text);
}

/* The first 16 digits of journal, state and output, one after another. */
static const char *digests(const kv_result *r, char out[49]) {
  const kv_digest *d[] = {&r->journal, &r->state, &r->output};
  char hex[65];
  for (int i = 0; i < 3; i++) {
    kv_digest_hex(d[i], hex);
    memcpy(out + 16 * i, hex, 16);
  }
  out[48] = 0;
  return out;
}

/* Recorded from this program when traces in memory were first replayed. A
 * change here is one of the methods' results (tests/golden.tsv). */
static const struct {
  const char *spec;
  int entries;
  const char *digests;
} known[] = {
    {"dense", -1, "7d5117b28ebd3d9da611062e2c6f7670b5401e134efb874d"},
    {"window", 24, "d345f754732f45f3beb6b612f409ab86275613268ab5819a"},
    {"h2o", 24, "9fa46df6e2d51f20539d227775c0db51f7185ff841dddeb2"},
    {"snapkv:window=8", 24, "0e3ef77382e29dbd1da92278d8025477b2046c93744d1c20"},
    {"kivi:bits=4:group=16:residual=16", -1,
     "9df0623ab88ce391104adbbeea2f6f73dc552efcd1ca93f1"},
    {"quest:page=8", 32, "7d5117b28ebd3d9da611062e2c6f7670b5401e134efb874d"},
};

TEST(digests_are_the_recorded_ones) {
  char have[49];
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    kv_cell cell = {0};
    run(known[i].spec, known[i].entries, &cell);
    digests(&cell.result, have);
    if (strcmp(have, known[i].digests) != 0)
      fail_msg("%s: %s, recorded %s", known[i].spec, have, known[i].digests);
    kv_cell_close(&cell);
  }
}

/* With a budget of all tokens nothing is dropped, and each output is dense's
 * to the bit. */
TEST(whole_budget_is_dense) {
  kv_cell dense = {0}, whole = {0};
  run("dense", -1, &dense);
  run("h2o", TOKENS, &whole);
  assert_memory_equal(&dense.result.output, &whole.result.output,
                      sizeof dense.result.output);
  kv_cell_close(&whole);
  kv_cell_close(&dense);
}

TEST(bytes_are_those_of_the_shape) {
  kv_cell dense = {0};
  run("dense", -1, &dense);
  assert_int_equal(kv_bytes_total(&dense.result.totals.end),
                   LAYERS * LANES * TOKENS * 2 * DIM * (int)sizeof(float));
  kv_cell_close(&dense);
}

/* No file can be read here, and the cell says so. */
TEST(a_file_is_refused) {
  kv_cell cell = {0};
  open_cell("replay:file=none.safetensors", -1, &cell);
  assert_false(cell.runs);
  assert_non_null(strstr(cell.result.reason, "has no file reader"));
  kv_cell_close(&cell);
}

int main(void) { return tests_run("core", make_trace, NULL); }
