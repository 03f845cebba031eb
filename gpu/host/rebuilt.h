/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay of deltakv that attends latent vectors as a decoder would
 * (gpu/shared/rebuilt.h): no row of theirs is read, the step makes them in one
 * kernel. With refs=raw and self=no, where rows have at most
 * KV_GPU_REBUILT_WIDE elements; otherwise attention reads the rows that were
 * decoded when tokens were coded. Which it is changes no bit of any result.
 * gpu/host/store.c, take.c and sequence.c are the callers.
 *
 * Those rows stay in the lanes' blocks all the same, as the journal hashes them
 * and the host's mirror has them. Latent vectors and the ids of their
 * references are there twice: in the lanes' parts, and put together.
 */
#ifndef KV_GPU_HOST_REBUILT_H
#define KV_GPU_HOST_REBUILT_H

#include "gpu/host/store.h"

/* True if it will, by the plan; the answer never changes. */
bool kv_gpu_rebuilt_suits(const kv_store *s);
/* When a store opens, behind the memory for the method's file: sets s->rebuilt
 * if it suits, else leaves it NULL; no memory is in s->fault. */
void kv_gpu_rebuilt_take(kv_store *s);
void kv_gpu_rebuilt_give(kv_store *s); /* when it closes */
/* A layer begins, whose tensors are uploaded: nothing is coded. */
void kv_gpu_rebuilt_begin(kv_store *s);

/* Starts, in a sequence: attention over the views of a step (s->rebuilt is not
 * NULL); .. */
void kv_gpu_seq_rebuilt_attend(const kv_store *s, void *stream);
/* .. after a compression, adding what it has coded to what is put together;
 * nothing where s->rebuilt is NULL. */
void kv_gpu_seq_rebuilt_compressed(const kv_store *s, void *stream);

#endif
