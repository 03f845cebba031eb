/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV's references while training: the vectors of sinks and of every
 * stride-th position, raw, and for each token the mean of its nearest ones
 * among those strictly earlier (squared L2, the earlier of equals; fewer where
 * fewer are visible). For the trainer deltakv.c. Distances are of products
 * whose last bits depend on the library that multiplies (product.h).
 */
#ifndef KV_SIM_TRAIN_NEAREST_H
#define KV_SIM_TRAIN_NEAREST_H

#include "sim/train/scratch.h"

enum { KV_NEAREST_MOST = 64 }; /* references of a token, at most */

/* Writes to token[] the tokens below `end` that are references, ascending:
 * those below sinks, then those at a multiple of stride. Returns how many;
 * token NULL: only that. */
int kv_references(int sinks, int stride, int end, int *token);

/* Floats of scratch that kv_nearest_means takes. */
size_t kv_nearest_room(int n, int references);
/* Writes to mean[n][width] the mean of the k nearest references of each of the
 * vectors x[n][width], which are of the tokens first .. first + n - 1; each has
 * at least one reference before it (asserted). token: [references] ascending,
 * of the vectors reference[references][width]. k: 1 .. KV_NEAREST_MOST. s has
 * kv_nearest_room left. */
void kv_nearest_means(int n, int first, int width, int k, const float *x,
                      int references, const int *token, const float *reference,
                      kv_scratch *s, float *mean);

#endif
