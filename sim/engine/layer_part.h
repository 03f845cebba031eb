/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/engine/layer*.c: the state of one layer of the model while its
 * cells are replayed, from kv_layer_open to kv_layer_close. One thread calls at
 * a time; those of its team each take other KV heads.
 */
#ifndef KV_SIM_LAYER_PART_H
#define KV_SIM_LAYER_PART_H

#include "sim/engine/layer.h"
#include "sim/engine/order.h"

struct kv_layer {
  const kv_backend *backend;
  int cells;                  /* of the replay, whether they take part or not */
  kv_cell *const *cell;       /* [cells] */
  int active;                 /* cells that take part */
  int *at;                    /* [active] their indexes */
  int *chunked;               /* [cells] of those that read the prompt in chunks
                                 of one size, while they do */
  kv_store **store;           /* [cells] of the layer in flight: one of */
  kv_store **full, **left;    /* [cells] layers that are left to a sliding
                                 window have stores of their own; NULL: none is
                                 left */
  kv_bytes **before;          /* [cells][lanes] of the block in progress */
  int64_t **materialised;     /* [cells][lanes] bytes of that block, as
                                 kv_cost_row.materialised counts them */
  kv_layouts_flight **flight; /* [cells] of memory layouts, or NULL */
  int steps;                  /* most rows computed ahead; below 2: none is */
  int until;                  /* those before this token are */
  kv_tile *tile;              /* their exact rows, or NULL: none is wanted */
  const kv_watch *watch;      /* callbacks, or NULL */
  int index;                  /* of the layer among the recorded ones */
  const kv_layer_data *data;  /* its q, k and v */
};

/* The plan of cell c on the layer in flight. */
static inline const kv_plan *kv_layer_plan(const kv_layer *l, int c) {
  return kv_cell_plan(l->cell[c], l->index);
}

/* True if the callbacks of w are to be called for cell number c: w is of that
 * cell, or of all. */
static inline bool kv_layer_watched(const kv_layer *l, int c,
                                    const kv_watch *w) {
  return !w->of || w->of == l->cell[c];
}

/* The `self` of the order's callbacks while some cells go through a block. */
typedef struct kv_look {
  kv_layer *layer;
  const int *cell; /* of each rider */
  kv_worker *worker;
  int block, step; /* the block being closed; tokens seen at its end */
  bool row;        /* it is a row of the prompt */
} kv_look;

/* layer_look.c: a rider of cell c, and the calls of some riders, between which
 * k is told of each cell's lanes. k and rider outlive the order. */
kv_rider kv_layer_rider(const kv_layer *l, int c, const kv_worker *worker);
kv_order kv_layer_order(kv_look *k, int riders, const kv_rider *rider);
/* Opens a block or step of cell c, before any KV head; and closes one, every KV
 * head of which is compressed, at `step` tokens seen. */
void kv_layer_open_step(kv_layer *l, int c, int block, const kv_team *team);
void kv_layer_close_step(kv_layer *l, int c, int block, int step,
                         const kv_team *team);

#endif
