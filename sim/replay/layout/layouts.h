/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts of one cell: the account of what each of them held, block by
 * block, and what feeds it. A cell opens the account (kv_layouts). Each layer
 * in flight opens a kv_layouts_flight: a replica of every lane, kept up to date
 * from its records, and a state of every layout. At the end kv_layouts_finish
 * sums up.
 *
 * As in the ledger (sim/replay/measure/cost.h), all inputs are integers that
 * are added, maximised or or-ed. So the account depends neither on threads nor
 * on the order of layers, and one layer's part can be written, read and cleared
 * by itself.
 *
 * Memory: for a layer in flight 44 bytes a token and lane (ref/lane/records.h),
 * and for each layout of pages 12 bytes a page and pool. For the account 56
 * bytes a block and layout; if layers share pages, also one bit for each block,
 * page and pool (with layers kept apart, as much for each layer); if what lanes
 * hold is recorded, 8 bytes a block, layer and lane. Regular indices take 96
 * bytes a block and rank, and in flight 2 bytes a token and lane, or 15 if a
 * class of entries (kv_retier) is never read.
 */
#ifndef KV_SIM_LAYOUTS_H
#define KV_SIM_LAYOUTS_H

#include "ref/pages/plan.h"
#include "sim/replay/layout/layout.h"
#include "sim/replay/measure/copier.h"
#include "sim/replay/measure/result.h"

typedef struct kv_layouts kv_layouts;

/* asked, shape and needs must outlive the account. layers: recorded ones;
 * lanes: of a layer; blocks >= 1: of the prompt; apart: as for kv_cost_open.
 * KV_RESOURCE: memory; *out is then NULL. */
kv_rc kv_layouts_open(const kv_layout_list *asked, const kv_shape *shape,
                      const kv_needs *needs, int layers, int lanes, int blocks,
                      bool apart, kv_layouts **out, kv_err *e);
void kv_layouts_close(kv_layouts *l); /* accepts NULL */

/* One layer's share, by its index, as kv_cost_layer_* of
 * sim/replay/measure/cost.h. */
void kv_layouts_layer_begin(kv_layouts *l, int layer);
void kv_layouts_layer_copy(kv_layouts *l, int layer, kv_copier *x);
/* A hash of the layouts' names, in order, to recognise bytes of other layouts.
 */
int64_t kv_layouts_name(const kv_layouts *l);

/* Fills in the r->n_layouts elements of r->layout, whose names are set. Call it
 * after kv_cost_finish: slack is computed against the payload of its steps.
 * KV_RESOURCE: memory. */
kv_rc kv_layouts_finish(const kv_layouts *l, kv_result *r, kv_err *e);

/* --- a layer in flight --------------------------------------------------- */

typedef struct kv_layouts_flight kv_layouts_flight;

/* l must outlive *out. KV_RESOURCE: memory; *out is then NULL. */
kv_rc kv_layouts_flight_open(kv_layouts *l, kv_layouts_flight **out, kv_err *e);
void kv_layouts_flight_close(kv_layouts_flight *f); /* accepts NULL */
/* The index-th recorded layer begins. */
void kv_layouts_flight_begin(kv_layouts_flight *f, int layer);
/* For each block, numbered from 0, after which `step` tokens are seen: call
 * `enter`; then `follow` for each lane after its compression, while its records
 * exist; then `close_block`. None fails: kv_layouts_flight_end reports errors.
 */
void kv_layouts_flight_enter(kv_layouts_flight *f, int block, int step);
void kv_layouts_flight_follow(kv_layouts_flight *f, const kv_lane *lane);
void kv_layouts_flight_close_block(kv_layouts_flight *f);
/* Ends the layer. KV_USAGE: a requested layout cannot hold what the method
 * stores. KV_INTERNAL: a record makes no sense, or counts do not agree. */
kv_rc kv_layouts_flight_end(kv_layouts_flight *f, kv_err *e);

/* --- what was held, block by block, for pools of requests ---------------- */

/* Tokens seen at the end of a block, 0 <= block < points. */
int kv_layouts_seen(const kv_layouts *l, int block);

static inline int64_t kv_larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes that a request holds at a block, in a layout without page tables. */
typedef struct kv_layout_point {
  int64_t most, bytes; /* the most while its layers compress one after another;
                          after that; most >= bytes */
  int64_t payload; /* bytes of these that hold rows. Unknown before the prompt's
                      end, where all count */
  int64_t map;     /* bytes of the tables that say where rows are */
} kv_layout_point;

/* What the layout with kv_layout_asked.record has recorded of a replayed cell;
 * valid as long as the account. */
typedef struct kv_layout_record {
  const kv_layouts *layouts;
  const kv_layout_asked *asked; /* NULL: no layout records */
  const kv_shape *shape;
  int layers, lanes;  /* recorded layers; lanes of a layer */
  int blocks, points; /* blocks of the prompt; these and the decode steps */
  /* With page tables, else NULL: [layers][points][lanes] tokens by tier,
   * [layers][points] entries that changed tier, and [layers][KV_TIERS]. */
  const kv_pages_count *count;
  const int64_t *moved;
  const kv_layout_tier *tier;
  const kv_layout_point *point; /* [points] without page tables; else NULL */
} kv_layout_record;

kv_layout_record kv_layouts_recorded(const kv_layouts *l);

#endif
