/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay's rows in a store of regular indices (gpu/shared/regular.h). Used if
 * the plan asks for it (kv_plan.indices: `run --layout ha:max` and similar,
 * `check --indices`) and every row stays as recorded: nothing is merged, coded
 * or re-indexed. Otherwise lanes have pools of pages, s->indexed is NULL, and
 * the functions do nothing. The choice changes no bit of any result. Called
 * only within gpu/host: store.c (take, pages, begin, give), step.c (walked, and
 * the starts), replay.c (kv_gpu_indexed_compressed).
 *
 * Masked (sparse): a token's place is where it entered, and its bit is cleared
 * when its entry is dropped or gets a class that no view holds. Rewritten
 * (max): if a lane of a layer lost an entry, the layer is gathered at the end
 * of the block or step, each lane to what it holds. Joined (max, with sets that
 * lanes share): if all lanes of a layer have lost a token, the layer is
 * gathered to what any of them holds, so a token has one place in all lanes.
 * Shared (sparse:masks=layer): bits are cleared that no lane's entries have;
 * one mask cannot express more, so attention uses it while all lanes read the
 * same.
 *
 * The pages of the lanes' pools are pieces of the store, so all code that reads
 * rows finds them there. Attention uses masks if every view is its whole lane,
 * or what classes leave of it, and lanes are in the order in which tokens
 * entered.
 *
 * Memory: each of the store's two halves holds K and V of every token.
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
  bool alike;    /* shared: the layer's lanes read the same entries, so the mask
                    is valid for each; if not, attention reads rows one by one
                    */
  bool in_order; /* the layer's lanes are still in token order; if not, the same
                  */
};

/* When a store opens: sets s->indexed, or leaves it NULL if the plan does not
 * ask for it. Lack of memory goes to s->fault. */
void kv_gpu_indexed_take(kv_store *s);
void kv_gpu_indexed_give(kv_store *s); /* when it closes */
/* After lanes and their pools are made: gives the pools all their pages. */
void kv_gpu_indexed_pages(kv_store *s);
/* A layer begins: no place is taken. */
void kv_gpu_indexed_begin(kv_store *s);
/* Does the next attention use masks? False if s->indexed is NULL. */
bool kv_gpu_indexed_walked(const kv_store *s);

/* Starts, in a sequence: copies the rows of the clock's tokens, whose entries
 * append has made, to their places; .. */
void kv_gpu_seq_indexed_enter(const kv_store *s, void *stream);
/* .. sets the masks to what is read after a compression. */
void kv_gpu_seq_indexed_compressed(const kv_store *s, void *stream);
/* After s->mirror has the result of a compression: rewrites the layer, if
 * requested (max) and its indices have changed. If attention by masks ends,
 * drops the recorded sequences (kv_gpu_forget). */
void kv_gpu_indexed_compressed(kv_store *s);

#endif
