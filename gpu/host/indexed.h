/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay's rows in a store of regular indices (gpu/shared/regular.h), where
 * the plan asks for it (kv_plan.indices: `run --layout ha:max` and its like,
 * `check --indices`) and every row stays as it came: nothing is merged, coded
 * or re-indexed. Else lanes have pools of pages, s->indexed is NULL, and the
 * functions do nothing; which it is changes no bit of any result. Callers:
 * store.c (take, pages, begin, give), step.c (walked and what
 * it starts), replay.c (kv_gpu_indexed_compressed), all of gpu/host.
 *
 * Masked (sparse), a token's place is where it entered, and its bit is clear
 * when its entry has gone or is of a class that no view holds. Rewritten (max),
 * a layer of which a lane has lost an entry is gathered when its block or step
 * is over, each lane to what it holds; joined (max, of sets that lanes share),
 * a layer of which all lanes have lost a token, to what any of them holds, so
 * that a token has one place in all lanes. Shared (sparse:masks=layer), bits
 * are clear that no lane's entries have: one mask cannot say more, so attention
 * goes by it as long as all lanes read the same. The pages of the lanes' pools
 * are pieces of the store, so all that reads rows finds them there; attention
 * goes by masks where every view is its lane, or what classes leave of it, and
 * lanes are in the order in which tokens entered.
 *
 * Memory: the store's two halves each have room for K and V of every token.
 */
#ifndef KV_GPU_INDEXED_H
#define KV_GPU_INDEXED_H

#include "gpu/host/regular.h"
#include "gpu/host/store.h"

/* kv_store.indexed. */
struct kv_gpu_indexed {
  kv_gpu_regular_store store;
  kv_indices how;
  bool *any;     /* joined: [tokens] scratch, does any lane hold it? */
  bool alike;    /* shared: the layer's lanes read the same entries, so that its
                    mask is each one's; if not, attention reads rows one by one
                    as below */
  bool in_order; /* the layer's lanes are still in the order of tokens; if not,
                    attention reads rows one by one */
};

/* When a store opens: sets s->indexed, or leaves it NULL where the plan does
 * not want it. Lack of memory goes to s->fault. */
void kv_gpu_indexed_take(kv_store *s);
void kv_gpu_indexed_give(kv_store *s); /* when it closes */
/* Then, when lanes and their pools are made: gives the pools all pages that
 * they will ever have. */
void kv_gpu_indexed_pages(kv_store *s);
/* A layer begins: no place is taken. */
void kv_gpu_indexed_begin(kv_store *s);
/* True if the next attention goes by masks; false where s->indexed is NULL. */
bool kv_gpu_indexed_walked(const kv_store *s);

/* Starts, in a sequence: copies the rows of the clock's tokens, whose entries
 * append has made, to their places; .. */
void kv_gpu_seq_indexed_enter(const kv_store *s, void *stream);
/* .. makes masks say what is read after a compression. */
void kv_gpu_seq_indexed_compressed(const kv_store *s, void *stream);
/* When s->mirror has what a compression left: rewrites the layer, if that is
 * wanted (max) and its indices are others now; and where attention by masks
 * ends, drops the recorded sequences (kv_gpu_forget). */
void kv_gpu_indexed_compressed(kv_store *s);

#endif
