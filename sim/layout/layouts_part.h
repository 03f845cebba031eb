/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/layout/layouts*.c and together*.c: the counters in which the
 * layouts of one cell are accounted for, block by block (a block: a piece of
 * the prompt, or a decode step). Layers in flight on several threads add to
 * them, so they are atomic, and integers, so that the order of adding does not
 * matter; they are read when all have ended. [rows]: one, or one a layer where
 * layers are held apart; [points]: blocks.
 */
#ifndef KV_SIM_LAYOUTS_PART_H
#define KV_SIM_LAYOUTS_PART_H

#include "ref/pages/pages.h"
#include "sim/layout/layouts.h"
#include <stdatomic.h>

typedef _Atomic int64_t kv_layout_counter;
typedef _Atomic uint64_t kv_layout_bits;

/* One block of a layout: pages and bytes held after it was compressed, bytes
 * that were freed, that rows vacated, and that lie unused in tables, all summed
 * over layers; more_*: the most that one layer had beyond its own before it was
 * compressed. */
typedef struct kv_layout_block {
  kv_layout_counter pages, bytes, freed, vacated, more_pages, more_bytes;
  kv_layout_counter unused;
} kv_layout_block;

/* The same of a layout of regular indices (--layout base, ls, la, hs, ha), in
 * entries: kept by lanes, in the fullest lane, in the longest index, in joined
 * indices; the same of those that changed in this block; and bytes of rows that
 * a mask hides. Sums over layers; of fullest and widest the largest. */
typedef struct kv_layout_regular {
  kv_layout_counter kept, fullest, longest, joined, widest;
  kv_layout_counter changed, changed_kept, changed_joined, masked;
} kv_layout_regular;

/* Of a layout with page tables, over all blocks: rows moved, operations on
 * lists of pages, and entries of tables. */
typedef struct kv_layout_tables {
  kv_layout_counter moved, operations, entries;
} kv_layout_tables;

/* The account of one layout. If layers share pages, also: which pages they
 * hold, block by block; how many rows each page was ever written; when the last
 * layer left it. */
typedef struct kv_layout_account {
  const kv_layout_asked *asked;
  kv_layout_block *at;        /* [rows][points] */
  kv_layout_regular *regular; /* the same, where the layout has a task */
  kv_layout_shared shared;
  kv_layout_tables *tables; /* [rows] */
  /* Where asked->record, by layer, whatever rows there are; else NULL. */
  kv_pages_count *count;    /* [layers][points][lanes] tokens by tier */
  int64_t *moved;           /* [layers][points] */
  kv_layout_tier *tier;     /* [layers][KV_TIERS] */
  size_t words;             /* words of bits for a block; 0: no shared pages */
  kv_layout_bits *held;     /* [rows][points][words] */
  kv_layout_counter *wrote; /* [rows][shared.pages] */
  kv_layout_counter *left;  /* the same */
} kv_layout_account;

struct kv_layouts {
  const kv_shape *shape;
  const kv_needs *needs;
  int layers, lanes;     /* recorded ones; of a layer */
  int blocks;            /* of the prompt */
  int points;            /* blocks in all, decode steps included */
  int rows;              /* layers if held apart, else 1 */
  int n;                 /* layouts */
  kv_layout_account *of; /* [n] */
};

/* The value of a counter, exact once every layer has ended. */
static inline int64_t kv_layout_get(const kv_layout_counter *c) {
  return atomic_load_explicit(c, memory_order_relaxed);
}

/* Fills r->regular from account a, after the replay. `of`: the cell's row,
 * whose steps are there; joined: two rooms of a->words words, whose contents
 * are lost. Cannot fail. */
void kv_layouts_regular(const kv_layouts *l, const kv_layout_account *a,
                        uint64_t *const joined[2], const kv_result *of,
                        kv_layout_result *r);

/* Tokens seen at the end of a block, 0 <= block < points. */
int kv_layouts_seen(const kv_layouts *l, int block);
/* The row of the account to which the layer of that index adds. */
int kv_layouts_row(const kv_layouts *l, int layer);

/* The counters, and the bits of pages held, of one row and block of account a.
 */
static inline kv_layout_block *kv_layout_block_of(const kv_layouts *l,
                                                  const kv_layout_account *a,
                                                  int row, int block) {
  return &a->at[(size_t)row * (size_t)l->points + (size_t)block];
}

static inline kv_layout_bits *kv_layout_bits_of(const kv_layouts *l,
                                                const kv_layout_account *a,
                                                int row, int block) {
  size_t at = (size_t)row * (size_t)l->points + (size_t)block;
  return &a->held[at * a->words];
}

#endif
