/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/replay/layout/layouts*.c: the counters of one cell's layouts,
 * block by block (a block: a piece of the prompt, or a decode step). [rows]: 1,
 * or one for each layer if layers are kept apart. [points]: blocks.
 */
#ifndef KV_SIM_LAYOUTS_PART_H
#define KV_SIM_LAYOUTS_PART_H

#include "ref/ground/counter.h"
#include "ref/pages/pages.h"
#include "sim/replay/layout/layouts.h"

typedef _Atomic uint64_t kv_layout_bits; /* or-ed by several threads */

/* One block of a layout, summed over layers. */
typedef struct kv_layout_block {
  kv_counter pages, bytes; /* held after its compression */
  kv_counter freed;        /* bytes of rows in pages that became free */
  kv_counter vacated;      /* bytes of rows that were left */
  /* What one layer held before or during its compression beyond what it held
   * afterwards: a maximum. */
  kv_counter more_pages, more_bytes;
  kv_counter unused; /* bytes of pages that hold no row */
} kv_layout_block;

/* One block of a layout of regular indices (--layout base, ls, la, hs, ha) on
 * one rank, in entries, summed over layers except for maxima. */
typedef struct kv_layout_regular {
  kv_counter kept;    /* in all lanes */
  kv_counter fullest; /* in the longest lane: a maximum */
  kv_counter longest; /* in each layer's longest lane */
  kv_counter joined;  /* in each layer's union over its lanes */
  kv_counter widest;  /* in the largest such union: a maximum */
  /* Layers whose indices changed: how many, their kept and joined. */
  kv_counter changed, changed_kept, changed_joined;
  kv_counter stored, masked, vacated; /* bytes, as in kv_regular_layer */
} kv_layout_regular;

/* A layout with page tables, over all blocks, as in kv_layout_state. */
typedef struct kv_layout_tables {
  kv_counter moved, operations, entries;
} kv_layout_tables;

/* The account of one layout. */
typedef struct kv_layout_account {
  const kv_layout_asked *asked;
  kv_layout_block *at; /* [rows][points] */
  int ranks;
  kv_layout_regular *regular; /* [rows][points][ranks], or NULL without task */
  kv_layout_tables *tables;   /* [rows] */
  /* If asked->record and the layout has page tables, else NULL; by layer, even
   * if layers are not kept apart. */
  kv_pages_count *count; /* [layers][points][lanes] tokens by tier */
  int64_t *moved;        /* [layers][points] entries that changed tier */
  kv_layout_tier *tier;  /* [layers][KV_TIERS] */
  /* If asked->record and the layout has no page tables, else NULL. */
  kv_layout_point *point; /* [points], made by kv_layouts_finish */
  /* If layers share pages: */
  kv_layout_shared shared; /* pages 0: not shared */
  size_t words;            /* 64-bit words for a block's pages */
  kv_layout_bits *held;    /* [rows][points][words] pages held by any layer; in
                              base: tokens */
  kv_counter *wrote;       /* [rows][shared.pages] rows ever written to it */
  kv_counter *left;        /* the same: block in which the last layer left it */
} kv_layout_account;

struct kv_layouts {
  const kv_shape *shape;
  const kv_needs *needs;
  int layers, lanes;     /* recorded layers; lanes of a layer */
  int blocks;            /* blocks of the prompt */
  int points;            /* all blocks, decode steps included */
  int rows;              /* layers if kept apart, else 1 */
  int n;                 /* layouts */
  kv_layout_account *of; /* [n] */
};

/* Does the layout have page tables of its own? */
static inline bool kv_layout_tabled(const kv_layout *l) {
  return l->compressed && !l->task;
}

/* Adds a step to the row r: pages and bytes held, and slack, a part of bytes. r
 * already counts the block's vacated and freed rows. Its means are sums until
 * kv_layouts_finish divides them. */
void kv_layouts_take_step(kv_layout_result *r, int64_t pages, int64_t bytes,
                          int64_t slack, kv_layout_step *step);

/* Fills in r, without dividing its means, from account a of a layout of regular
 * indices, after the replay; of several ranks the one that holds most. r has
 * its name and steps, and is 0 otherwise. `of`: the cell's row, with its steps;
 * joined: two scratch buffers of a->words words. Cannot fail. */
void kv_layouts_regular(const kv_layouts *l, const kv_layout_account *a,
                        uint64_t *const joined[2], const kv_result *of,
                        kv_layout_result *r);

/* The counters, or the bits of pages held, of one row and block of account a.
 */
static inline kv_layout_block *kv_layout_block_of(const kv_layouts *l,
                                                  const kv_layout_account *a,
                                                  int row, int block) {
  return &a->at[(size_t)row * (size_t)l->points + (size_t)block];
}

static inline kv_layout_regular *
kv_layout_regular_of(const kv_layouts *l, const kv_layout_account *a, int row,
                     int block, int rank) {
  size_t at = (size_t)row * (size_t)l->points + (size_t)block;
  return &a->regular[at * (size_t)a->ranks + (size_t)rank];
}

static inline kv_layout_bits *kv_layout_bits_of(const kv_layouts *l,
                                                const kv_layout_account *a,
                                                int row, int block) {
  size_t at = (size_t)row * (size_t)l->points + (size_t)block;
  return &a->held[at * a->words];
}

#endif
