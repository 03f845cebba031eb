/* SPDX-License-Identifier: Apache-2.0
 *
 * Small trainings for tests: tests/support/traces/training.h.
 */
#include "tests/support/traces/training.h"

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char training_trace[2][512];
void *training_params;

kv_synth training_small(uint64_t seed) {
  kv_synth s = {.like = *kv_geometry_find("tiny"),
                .n_tokens = TRAINING_LONG,
                .prompt_len = 60,
                .seed = seed};
  s.like.n_layers = 2;
  s.like.n_heads = 4;
  s.like.n_kv_heads = 2;
  s.like.d = 8;
  s.like.dtype = KV_F32;
  return s;
}

void training_write(const kv_synth *s, const char *name, char path[512]) {
  kv_err e = {0};
  snprintf(path, 512, "%s", scratch_path(name));
  if (kv_synth_write(s, kv_kernels_best(), path, &e)) fail_msg("%s", e.text);
}

int training_make(void **state) {
  if (scratch_make(state)) return 1;
  kv_second_setup();
  for (int i = 0; i < 2; i++) {
    kv_synth s = training_small(7 + (uint64_t)i);
    training_write(&s, i ? "b.safetensors" : "a.safetensors",
                   training_trace[i]);
  }
  return 0;
}

void training_ask(const char *spec, const char *output, kv_train_ask *out) {
  static const char *path[2];
  kv_err e = {0};
  *out = (kv_train_ask){.traces = 2,
                        .path = path,
                        .output = output,
                        .most = TRAINING_PIECE,
                        .threads = 1,
                        .kernels = kv_kernels_best(),
                        .dtype = KV_ST_F32};
  path[0] = training_trace[0];
  path[1] = training_trace[1];
  if (kv_trainer_parse(spec, &out->of, &training_params, &e))
    fail_msg("%s", e.text);
  out->params = training_params;
}

kv_train *training_begin(const char *spec) {
  kv_train_ask ask;
  kv_train *training;
  kv_err e = {0};
  training_ask(spec, scratch_path("gradient.safetensors"), &ask);
  if (kv_train_open(&ask, &training, &e)) fail_msg("%s", e.text);
  return training;
}

void training_end(kv_train *x) {
  unlink(x->checkpoint);
  kv_train_close(x);
  free(training_params);
}
