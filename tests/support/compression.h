/* SPDX-License-Identifier: Apache-2.0
 *
 * One lane of random rows, as long as asked for and without attention, and
 * the compression of its prompt by `zsmerge:variant=code`, which merges all but
 * the budget: what the time of verbs is measured with.
 */
#ifndef KV_TESTS_COMPRESSION_H
#define KV_TESTS_COMPRESSION_H

#include "ref/lane/lane.h"

typedef struct compression {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data; /* fp16, made once */
  kv_lane lane;
  kv_work work;
} compression;

/* A prompt of n_tokens of d elements a side; budget: entries that stay. */
kv_rc compression_open(compression *s, int n_tokens, int d, int budget,
                       kv_err *e);
void compression_close(compression *s); /* accepts zeroed */

/* An empty lane takes the prompt, gets random scores and is compressed. Returns
 * the processor seconds of this thread that compression and sweep took. */
double compression_run(compression *s);

#endif
