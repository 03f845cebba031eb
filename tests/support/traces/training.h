/* SPDX-License-Identifier: Apache-2.0
 *
 * Two small synthetic traces of one model in a scratch folder, and trainings
 * (sim/train) on them. What goes wrong fails the running test.
 */
#ifndef KV_TESTS_TRAINING_H
#define KV_TESTS_TRAINING_H

#include "sim/train/train.h"
#include "traces/trace/synth.h"

enum {
  TRAINING_LONG = 90, /* tokens of a trace */
  TRAINING_PIECE = 40 /* tokens that are trained on at once */
};
/* Their paths. */
extern char training_trace[2][512];

/* Setup of a cmocka group: scratch folder and traces; returns 0, or 1 without a
 * folder. Tear down by scratch_remove. */
int training_make(void **state);
/* The description of such a trace, to be changed and written as NAME in the
 * scratch folder; path becomes where. */
kv_synth training_small(uint64_t seed);
void training_write(const kv_synth *s, const char *name, char path[512]);

/* Fills *out to train the specification's method on both and to write the file
 * `output`. Its parameters are training_params, which the caller frees before
 * the next call replaces them. */
void training_ask(const char *spec, const char *output, kv_train_ask *out);
extern void *training_params;
/* A training that is opened so, and its end, which also deletes the checkpoint
 * and frees training_params. */
kv_train *training_begin(const char *spec);
void training_end(kv_train *x);

#endif
