/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV's references while training: the vectors of sinks and of every
 * stride-th position, raw, and for each token the mean of its nearest ones
 * among those strictly earlier (squared L2, the earlier of equals; fewer where
 * fewer are visible).
 */
#ifndef KV_SIM_TRAIN_NEAREST_H
#define KV_SIM_TRAIN_NEAREST_H

#include "sim/train/scratch.h"

enum { KV_NEAREST_MOST = 64 };

/* Tokens below `end` that are references, ascending: those below sinks, then
 * those at a multiple of stride. token NULL: only how many. */
int kv_references(int sinks, int stride, int end, int *token);

/* Elements of scratch that kv_nearest_means takes. */
size_t kv_nearest_room(int n, int references);
/* mean[n][width] of x[n][width], tokens first .. first + n - 1, each with at
 * least one reference before it; token[references] ascending, of vectors
 * reference[references][width]. k <= KV_NEAREST_MOST. */
void kv_nearest_means(int n, int first, int width, int k, const float *x,
                      int references, const int *token, const float *reference,
                      kv_scratch *s, float *mean);

#endif
