/* SPDX-License-Identifier: Apache-2.0
 *
 * Index regularisation: the cost of giving lanes of different lengths indices
 * that one captured graph can use for all layers, after the Hard-KV paper (its
 * section 3.3 and appendix B.2). Pure integer arithmetic, which cannot fail.
 * sim/replay/layout/layout_regular.c counts what a method's lanes hold,
 * layouts_regular.c puts the counts into these formulas, and
 * sim/replay/layout/README.md explains the tasks.
 *
 * A slot holds K and V of one token for one lane. Slots and loads are summed
 * over all lanes of all layers.
 */
#ifndef KV_SIM_REGULAR_H
#define KV_SIM_REGULAR_H

#include <stdbool.h>
#include <stdint.h>

/* Whose tokens an index names, and how large a store is (--layout). */
typedef enum kv_regular_task {
  KV_REGULAR_NONE, /* not such a layout */
  KV_REGULAR_BASE, /* one set for all lanes: tokens that any lane holds */
  KV_REGULAR_LS,   /* a set for each layer, all padded to the largest size */
  KV_REGULAR_LA,   /* the same, but a rewrite fills only a set's own size */
  KV_REGULAR_HS,   /* a set for each lane, padded to the longest of its layer */
  KV_REGULAR_HA    /* a set for each lane, padded to the longest of the model */
} kv_regular_task;

/* Entries of one layer's lanes after a block. If heads are divided among ranks,
 * these and the counts below are of one rank's lanes. */
typedef struct kv_regular_layer {
  int64_t kept, fullest; /* in all lanes; in the longest */
  int64_t joined;        /* in their union */
  int64_t stored;        /* bytes of rows */
  int64_t masked;        /* bytes of these rows that are masked out */
  int64_t vacated;       /* bytes of rows left or masked out in this block */
  bool changed; /* in this block, a set that the task has indices for (a lane's,
                   or the union) lost or regained an entry */
} kv_regular_layer;

/* Entries of a model's lanes at one moment. */
typedef struct kv_regular_counts {
  int64_t layers, lanes; /* lanes: of a layer */
  int64_t seen;          /* tokens so far: entries of a lane without drops */
  int64_t kept;          /* in all lanes */
  int64_t fullest;       /* in the longest lane */
  int64_t longest;       /* in each layer's longest lane, summed over layers */
  int64_t joined;        /* in each layer's union, summed over layers */
  int64_t widest;        /* in the largest union of a layer */
  int64_t all;           /* in the union over all lanes */
  bool changed_all;      /* in this block that union lost or regained a token */
  /* Layers whose own set changed: their number, and sums of kept and joined. */
  int64_t changed, changed_kept, changed_joined;
  int64_t stored, masked, vacated; /* bytes, as in kv_regular_layer */
} kv_regular_counts;

/* Slots that the store holds, which attention loads at each decode step.
 * sparse: all tokens stay, and masks select. */
int64_t kv_regular_slots(kv_regular_task task, bool sparse,
                         const kv_regular_counts *c);
/* Bytes of the masks: one bit for each token seen, in whole bytes, for each
 * lane or, if `one` mask serves all lanes of a layer, for each layer. */
int64_t kv_regular_mask(bool one, const kv_regular_counts *c);
/* Entries that lanes read, all and the longest: what they hold or, if `one`
 * mask serves a layer, what any lane of the layer holds. */
int64_t kv_regular_kept(bool one, const kv_regular_counts *c);
int64_t kv_regular_fullest(bool one, const kv_regular_counts *c);
/* Slots that a rewrite of the changed layers fills. */
int64_t kv_regular_moves(kv_regular_task task, const kv_regular_counts *c);

/* --- when a rewrite has paid off ----------------------------------------- */

__extension__ typedef unsigned __int128 kv_regular_wide;

/* The memory-time integrals of a rewritten store and of a masked one, from the
 * first rewrite on. Time is measured in bytes moved or loaded, because the
 * kernels are bound by memory and rows have no timings. */
typedef struct kv_regular_race {
  bool begun;      /* there was a rewrite */
  int64_t steps;   /* decode steps since the first rewrite */
  int64_t paid_at; /* the first decode step after which the rewritten store's
                      integral is smaller or equal; -1: none so far */
  kv_regular_wide rewritten, masked; /* bytes held x bytes touched */
} kv_regular_race;

void kv_regular_begin(kv_regular_race *r); /* empties it */
/* Counts a rewrite. During it `held` bytes exist, old and new rows; `moved`
 * bytes are each read and written. The masked store holds `all` bytes and
 * writes masks of `mask` bytes. */
void kv_regular_rewrite(kv_regular_race *r, int64_t held, int64_t moved,
                        int64_t all, int64_t mask);
/* Counts a decode step: the rewritten store loads all `held` bytes, the masked
 * one all `all`. Does nothing before a rewrite. */
void kv_regular_step(kv_regular_race *r, int64_t held, int64_t all);

#endif
