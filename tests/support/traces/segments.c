/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/traces/segments.h"
#include "tests/support/scratch.h"
#include "traces/trace/synth.h"
#include "traces/trace/trace.h"

#include <string.h>

kv_segment segments_turns[TURNS] = {
    {60, 66, KV_QUESTION},   {0, 12, KV_CONTEXT}, {50, 60, KV_CONTEXT},
    {12, FIRST, KV_CONTEXT}, {46, 50, KV_ANSWER}, {34, ASKED, KV_QUESTION},
    {66, 70, KV_ANSWER}};
kv_trace *segments_trace;
static kv_segment *own;
static int n_own;

int segments_make(void **state) {
  kv_synth s = {.like = {.name = "observe",
                         .n_layers = 2,
                         .n_heads = 4,
                         .n_kv_heads = 2,
                         .d = 16,
                         .theta = 10000,
                         .dtype = KV_F32},
                .n_tokens = TOKENS_ALL,
                .prompt_len = RECORDED,
                .seed = 5};
  kv_err e = {0};
  if (scratch_make(state)) return 1;
  const char *path = scratch_path("observe.safetensors");
  if (kv_synth_write(&s, kv_kernels_best(), path, &e) ||
      kv_trace_open(path, &segments_trace, &e))
    fail_msg("%s", e.text);
  own = segments_trace->segment;
  n_own = segments_trace->n_segments;
  return 0;
}

void segments_mark(int n, kv_segment *segment) {
  segments_trace->n_segments = n;
  segments_trace->segment = segment;
}

int segments_close(void **state) {
  segments_mark(n_own, own);
  kv_trace_close(segments_trace);
  return scratch_remove(state);
}

bool segments_slow(void) { return rig_backend() != &kv_backend_ref; }

void segments_open(const char *text, int entries, int prompt,
                   kv_observe observe, kv_cell *c) {
  kv_spec spec = {0};
  kv_err e = {0};
  if (kv_spec_parse(kv_method_at, text, &spec, &e)) fail_msg("%s", e.text);
  kv_asked_cell asked = {.spec = &spec,
                         .entries = kv_spec_wants_budget(&spec) ? entries : -1,
                         .observe = observe};
  if (kv_cell_open(segments_trace, prompt, kv_kernels_best(), &asked, c, &e))
    fail_msg("%s: %s", text, e.text);
  kv_spec_free(&spec);
}

void segments_replay_as(kv_replay_how how, kv_cell *const *cell, int n) {
  if (!how.backend) how.backend = rig_backend();
  how.kernels = kv_kernels_best();
  kv_err e = {0};
  bool stopped;
  if (kv_replay(segments_trace, cell, n, &how, &stopped, &e))
    fail_msg("%s", e.text);
}

void segments_replay(kv_cell *const *cell, int n) {
  segments_replay_as((kv_replay_how){.threads = 1, .fidelity = true}, cell, n);
}

bool segments_same_digest(const kv_digest *a, const kv_digest *b) {
  return memcmp(a, b, sizeof *a) == 0;
}
