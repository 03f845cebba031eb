/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay of deltakv that attends latent vectors as a serving engine would
 * (gpu/shared/rebuilt.h): each step decodes the vectors that it attends, in one
 * kernel, and reads no decoded row. Used with refs=raw and self=no, if no other
 * method is on the lanes and rows have at most KV_GPU_REBUILT_WIDE elements.
 * Otherwise attention reads the rows that were decoded when tokens were coded.
 * The choice changes no bit of any result. Called by gpu/host/store.c and
 * step.c.
 *
 * The lanes' blocks hold the decoded rows in both cases, because the journal
 * hashes them and the host's mirror has them. Device memory holds latent
 * vectors and the ids of their references twice: divided into a part for K and
 * for V of each lane, and whole.
 */
#ifndef KV_GPU_HOST_REBUILT_H
#define KV_GPU_HOST_REBUILT_H

#include "gpu/host/store.h"

/* Will attention decode latent vectors? Follows from the plan and from
 * s->parts, lanes and own_views, which must be set. The answer never changes.
 */
bool kv_gpu_rebuilt_suits(const kv_store *s);
/* When a store opens, after its memory for the layer was allocated: sets
 * s->rebuilt if it suits, else leaves it NULL. Lack of memory goes to s->fault.
 */
void kv_gpu_rebuilt_take(kv_store *s);
void kv_gpu_rebuilt_give(kv_store *s); /* when it closes */
/* A layer begins, whose tensors are uploaded: nothing is coded. Does nothing if
 * s->rebuilt is NULL. */
void kv_gpu_rebuilt_begin(kv_store *s);

/* Starts, in a sequence: attention over the views of a step (s->rebuilt must
 * not be NULL); .. */
void kv_gpu_seq_rebuilt_attend(const kv_store *s, void *stream);
/* .. after a compression, adds what it has coded to the whole vectors; does
 * nothing if s->rebuilt is NULL. */
void kv_gpu_seq_rebuilt_compressed(const kv_store *s, void *stream);

#endif
