/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a store in regular indices (gpu/host/regular.h), where the plan
 * asks for it (kv_plan.indices) and every row is as it came: nothing is merged,
 * coded or re-indexed. Else lanes have pools of pages. Which it is changes no
 * bit of any result.
 *
 * Masked, a token's place is where it entered, and a bit is clear when its
 * entry has gone, or is of a class that no view holds. Rewritten, a layer of
 * which a lane has lost an entry is gathered when its block is over; what is
 * held and not read - Hard-KV may ask it again - stays as a clear bit. The
 * pages of the lanes' pools are pieces of that memory, so all that reads rows
 * finds them there; attention goes by masks (gpu/backend/regular.cu) where
 * views are the lanes, or what classes leave of them, and lanes are in the
 * order in which tokens entered.
 *
 * Memory: a place for every token in both sides of both halves. A prompt has
 * them before it compresses.
 */
#ifndef KV_GPU_INDEXED_H
#define KV_GPU_INDEXED_H

#include "gpu/host/regular.h"
#include "gpu/host/store.h"

struct kv_gpu_indexed {
  kv_gpu_regular_store store;
  bool rewritten;
  bool in_order; /* are the layer's lanes? Else rows are read one by one */
  int rewrites;  /* of the layer */
};

/* Sets s->indexed, or leaves it NULL; errors in s->fault. */
void kv_gpu_indexed_take(kv_store *s);
void kv_gpu_indexed_give(kv_store *s);
/* The lanes' pools get its pages: all that they will ever have. */
void kv_gpu_indexed_pages(kv_store *s);
/* A layer begins: no place is taken. */
void kv_gpu_indexed_begin(kv_store *s);
/* Does attention go by masks? */
bool kv_gpu_indexed_walked(const kv_store *s);

/* Starts what brings in rows of the clock's tokens, which have entries, .. */
void kv_gpu_seq_indexed_enter(const kv_store *s, void *stream);
/* .. and what lets masks say what is left after a compression. */
void kv_gpu_seq_indexed_compressed(const kv_store *s, void *stream);
/* The mirror has what a compression left: rewrites the layer if need be. */
void kv_gpu_indexed_compressed(kv_store *s);

#endif
