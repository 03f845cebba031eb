/* SPDX-License-Identifier: Apache-2.0
 *
 * One lane of random fp16 rows of any length, without attention, and the
 * compression of its prompt by `zsmerge:variant=code`, which merges all entries
 * beyond the budget. A test of its growth and a benchmark time verbs with it.
 *
 *   open, run any number of times, close
 */
#ifndef KV_TESTS_COMPRESSION_H
#define KV_TESTS_COMPRESSION_H

#include "ref/lane/lane.h"

/* State of the functions below; the caller may read only the lane. */
typedef struct compression {
  kv_shape shape;     /* one head, one layer */
  kv_needs needs;     /* of the method */
  kv_layer_data data; /* fp16, made once */
  kv_lane lane;       /* as the last run left it */
  kv_work work;       /* of the hook */
} compression;

/* A prompt of n_tokens whose keys and values have d elements; budget: entries
 * that stay. KV_RESOURCE: memory; close it also then. Only one may be open,
 * because the method's parameters are static. */
kv_rc compression_open(compression *s, int n_tokens, int d, int budget,
                       kv_err *e);
void compression_close(compression *s); /* accepts zeroed */

/* Empties the lane, lets the prompt enter, gives it fixed unordered scores and
 * compresses it. Returns the processor seconds of this thread for compression
 * and sweep. */
double compression_run(compression *s);

#endif
