/* SPDX-License-Identifier: Apache-2.0
 *
 * Two small traces of one model, and trainings on them.
 */
#ifndef KV_TESTS_TRAINING_H
#define KV_TESTS_TRAINING_H

#include "sim/train/train.h"
#include "traces/trace/synth.h"

enum { TRAINING_LONG = 90, TRAINING_PIECE = 40 }; /* tokens */
extern char training_trace[2][512];

/* Group setup for cmocka: the folder and the traces. */
int training_make(void **state);
/* A trace as those two are, to be changed and written. */
kv_synth training_small(uint64_t seed);
void training_write(const kv_synth *s, const char *name, char path[512]);

/* What to ask for to train on them. The parameters are training_params. */
void training_ask(const char *spec, const char *output, kv_train_ask *out);
extern void *training_params;
/* Opened; a failure fails the test. */
kv_train *training_begin(const char *spec);
void training_end(kv_train *x);

#endif
