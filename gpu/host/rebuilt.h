/* SPDX-License-Identifier: Apache-2.0
 *
 * A store whose tokens are latent vectors, attended as a decoder would
 * (gpu/shared/rebuilt.h): no row of theirs is read, the step makes them in one
 * kernel. For deltakv with refs=raw and self=no, where each row has at most
 * KV_GPU_REBUILT_WIDE elements; what else codes so is read row by row as it was
 * decoded. Which it is changes no bit of any result.
 *
 * The rows that were decoded stay in the lanes' blocks all the same: the
 * journal hashes them, and the host's mirror has them. Latent vectors and names
 * are there twice, in the lanes' parts and put together.
 */
#ifndef KV_GPU_HOST_REBUILT_H
#define KV_GPU_HOST_REBUILT_H

#include "gpu/host/store.h"

/* Will attention decode, so that rows need not be materialised? */
bool kv_gpu_rebuilt_suits(const kv_store *s);
/* Sets s->rebuilt, or leaves it NULL; errors in s->fault. The method's file has
 * its memory. */
void kv_gpu_rebuilt_take(kv_store *s);
void kv_gpu_rebuilt_give(kv_store *s);
/* A layer begins: nothing is coded; its tensors are there. */
void kv_gpu_rebuilt_begin(kv_store *s);

/* Starts attention over the views of a step, .. */
void kv_gpu_seq_rebuilt_attend(const kv_store *s, void *stream);
/* .. and what puts together what a compression has coded. */
void kv_gpu_seq_rebuilt_compressed(const kv_store *s, void *stream);

#endif
