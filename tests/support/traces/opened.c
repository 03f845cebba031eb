/* SPDX-License-Identifier: Apache-2.0
 *
 * Small traces of a test program: tests/support/traces/opened.h.
 */
#include "tests/support/traces/opened.h"

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/synth.h"

#include <stdio.h>

kv_trace *opened_trace(const kv_small *of, uint64_t seed, opened_by *open) {
  char name[64];
  kv_trace *t = NULL;
  kv_err e = {0};
  snprintf(name, sizeof name, "%.40s.safetensors", of->name);
  const char *path = scratch_path(name);
  if (kv_small_write(of, seed, path, &e) || open(path, &t, &e))
    fail_msg("%s: %s", name, e.text);
  return t;
}

kv_trace *opened_windows(opened_by *open) {
  const kv_synth s = {.like = {"windows", 3, 4, 2, 32, 10000, KV_ROPE_PLAIN,
                               KV_F32, .window = 24, .full_every = 3,
                               .sinks = 1},
                      .softcap = 20,
                      .n_tokens = 120,
                      .prompt_len = 90};
  const char *path = scratch_path("windows.safetensors");
  kv_trace *t = NULL;
  kv_err e = {0};
  if (kv_synth_write(&s, kv_kernels_best(), path, &e) || open(path, &t, &e))
    fail_msg("windows: %s", e.text);
  return t;
}

int opened_make(void **state, int n, const kv_small *of, uint64_t seed,
                opened_by *open, kv_trace **trace) {
  if (scratch_make(state)) return 1;
  for (int i = 0; i < n; i++) trace[i] = opened_trace(&of[i], seed, open);
  return 0;
}

int opened_close(void **state, int n, kv_trace *const *trace) {
  for (int i = 0; i < n; i++) kv_trace_close(trace[i]);
  return scratch_remove(state);
}
