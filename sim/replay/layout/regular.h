/* SPDX-License-Identifier: Apache-2.0
 *
 * Index regularisation: what it costs to bring lanes of different lengths under
 * indices that one captured graph can use for all layers, after the Hard-KV
 * paper (its section 3.3 and appendix B.2). Arithmetic alone, in whole numbers,
 * which cannot fail; sim/replay/layout/layout_regular.c counts what a method's
 * lanes hold, layouts_regular.c puts the counts into these formulas, and
 * sim/replay/layout/README.md explains the tasks.
 *
 * A slot holds K and V of one token for one lane. Slots and loads are summed
 * over all lanes of all layers.
 */
#ifndef KV_SIM_REGULAR_H
#define KV_SIM_REGULAR_H

#include <stdbool.h>
#include <stdint.h>

/* Whose tokens an index names, and how much room a store has (--layout). */
typedef enum kv_regular_task {
  KV_REGULAR_NONE, /* not such a layout */
  KV_REGULAR_BASE, /* one set for all lanes: tokens that any of them holds */
  KV_REGULAR_LS,   /* a set for each layer, all padded to the largest's size */
  KV_REGULAR_LA,   /* the same; but a rewrite fills only a set's own size */
  KV_REGULAR_HS,   /* a set for each lane; room for the longest of its layer */
  KV_REGULAR_HA    /* a set for each lane; room for the longest of the model */
} kv_regular_task;

/* Entries of one layer's lanes after a block: of those of one rank where heads
 * are dealt to ranks, as in all that follows. */
typedef struct kv_regular_layer {
  int64_t kept, fullest; /* of all lanes; of the longest */
  int64_t joined;        /* of the union over lanes */
  int64_t stored;        /* bytes of rows; .. */
  int64_t masked;        /* .. of these, of rows that do not count */
  int64_t vacated;       /* bytes of rows that were left or masked out in this
                            block */
  bool changed; /* a set that the task has indices for, a lane's or the union,
                   has lost an entry in this block, or has one back */
} kv_regular_layer;

/* Entries of a model's lanes at one moment; joined: of the union over lanes. */
typedef struct kv_regular_counts {
  int64_t layers, lanes; /* lanes of a layer */
  int64_t seen;          /* tokens so far: what a lane without drops has */
  int64_t kept;          /* of all lanes */
  int64_t fullest;       /* of the longest lane */
  int64_t longest;       /* of each layer's longest lane, summed over layers */
  int64_t joined;        /* of each layer's union, summed over layers */
  int64_t widest;        /* of a layer's union: the largest */
  int64_t all;           /* of the union over all lanes */
  bool changed_all; /* it has lost a token in this block, or has one back */
  /* Of layers whose own set is not what it was: how many, and their share of
   * kept and of the unions. */
  int64_t changed, changed_kept, changed_joined;
  int64_t stored, masked, vacated; /* bytes, as of a layer */
} kv_regular_counts;

/* Slots that the store holds, which attention loads at each decode step.
 * sparse: all tokens stay, and masks say which count. */
int64_t kv_regular_slots(kv_regular_task task, bool sparse,
                         const kv_regular_counts *c);
/* Bytes of the masks: a bit for each token seen, in whole bytes for each layer
 * and lane; one: for each layer, where one mask serves its lanes. */
int64_t kv_regular_mask(bool one, const kv_regular_counts *c);
/* Entries that lanes read, of all of them and of the longest: by masks of their
 * own what they hold; one: what any lane of their layer holds. */
int64_t kv_regular_kept(bool one, const kv_regular_counts *c);
int64_t kv_regular_fullest(bool one, const kv_regular_counts *c);
/* Slots that a rewrite of the changed layers fills. */
int64_t kv_regular_moves(kv_regular_task task, const kv_regular_counts *c);

/* --- from which step on a rewrite has paid ------------------------------- */

__extension__ typedef unsigned __int128 kv_regular_wide;

/* The memory-time integrals of a rewritten store and of the masked one, from
 * the first rewrite on. A time is the bytes that are moved or loaded in it, for
 * the kernels are bound by memory and no row has timings. */
typedef struct kv_regular_race {
  bool begun;      /* there was a rewrite */
  int64_t steps;   /* decode steps since */
  int64_t paid_at; /* the first of them after which the rewritten store's
                      integral is the smaller or equal; -1: none so far */
  kv_regular_wide rewritten, masked; /* bytes held x bytes touched */
} kv_regular_race;

void kv_regular_begin(kv_regular_race *r); /* empties it */
/* A rewrite: `held` bytes are there meanwhile, what it reads and what it has
 * written; it moves `moved` bytes, each read and written; the masked store
 * holds `all` bytes and writes its masks of `mask` bytes. */
void kv_regular_rewrite(kv_regular_race *r, int64_t held, int64_t moved,
                        int64_t all, int64_t mask);
/* A decode step: bytes that the rewritten store (`held`) and the masked one
 * (`all`) hold, all of which each loads. Before a rewrite it does nothing. */
void kv_regular_step(kv_regular_race *r, int64_t held, int64_t all);

#endif
