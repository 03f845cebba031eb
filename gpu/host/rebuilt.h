/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay of deltakv that attends latent vectors as an engine that serves
 * requests would (gpu/shared/rebuilt.h): each step decodes those that it
 * attends, in one kernel, and reads no decoded row. So it is with refs=raw and
 * self=no, where no other method is on the lanes and rows have at most
 * KV_GPU_REBUILT_WIDE elements; otherwise attention reads the rows that were
 * decoded when tokens were coded. Which it is changes no bit of any result.
 * gpu/host/store.c and step.c are the callers.
 *
 * The decoded rows stay in the lanes' blocks all the same, as the journal
 * hashes them and the host's mirror has them. Latent vectors and the ids of
 * their references are in device memory twice: cut into a part for K and for V
 * of each lane, and put together.
 */
#ifndef KV_GPU_HOST_REBUILT_H
#define KV_GPU_HOST_REBUILT_H

#include "gpu/host/store.h"

/* True if attention will decode latent vectors: by the plan, and by s->parts,
 * lanes and own_views, which are set before. The answer never changes. */
bool kv_gpu_rebuilt_suits(const kv_store *s);
/* When a store opens, after its memory for the layer was taken: sets s->rebuilt
 * if it suits, else leaves it NULL. Lack of memory goes to s->fault. */
void kv_gpu_rebuilt_take(kv_store *s);
void kv_gpu_rebuilt_give(kv_store *s); /* when it closes */
/* A layer begins, whose tensors are uploaded: nothing is coded. Does nothing
 * where s->rebuilt is NULL. */
void kv_gpu_rebuilt_begin(kv_store *s);

/* Starts, in a sequence: attention over the views of a step (s->rebuilt is not
 * NULL); .. */
void kv_gpu_seq_rebuilt_attend(const kv_store *s, void *stream);
/* .. after a compression, adding what it has coded to what is put together;
 * nothing where s->rebuilt is NULL. */
void kv_gpu_seq_rebuilt_compressed(const kv_store *s, void *stream);

#endif
