/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact attention of several rows at once. A replay knows every query in
 * advance, so one pass through K and V serves a whole tile of steps: each key
 * and value is read from memory once, and arithmetic, not memory, limits the
 * speed. The bits equal those of single rows, because every pair of a query and
 * a chunk keeps its order (arithmetic 1 and 3).
 *
 * A tile holds `steps` rows of `heads` KV heads. Its slots, `head`, are
 * numbered from 0; different threads may fill different slots. t is a row's
 * token, g a KV head of the model, G the query heads of a KV head, T the tokens
 * of the trace. Memory: 4 bytes a token, query head and step. A layer in flight
 * (sim/replay/engine/layer.h) has one tile, and each truth
 * (sim/replay/measure/truth.h) one of a single row. Only opening can fail.
 */
#ifndef KV_SIM_TILE_H
#define KV_SIM_TILE_H

#include "ref/backend/attend.h"

typedef struct kv_tile {
  const kv_shape *shape;
  const kv_kernels *kernels;
  int steps;     /* most rows of a tile */
  int heads;     /* KV heads that it holds */
  int *t, *rows; /* [heads] the last fill: rows t..t+rows-1 are valid */
  size_t stride; /* of s: T rounded up to 16 */
  float *q;      /* [heads][steps][G][d] fp32 */
  float *s;      /* [heads][steps][G][stride] logits, arithmetic 1; undefined
                    after a row's own token, and before the layer's window */
  float *out;    /* [heads][steps][G][d_v], arithmetic 3 */
  float *lse;    /* [heads][steps][G] */
  bool *finite;  /* [heads][steps] all logits are finite; else no out, lse */
} kv_tile;

/* One row of one KV head, in the arrays above, valid until the next fill. */
typedef struct kv_tile_row {
  const float *q, *s, *out, *lse;
  bool finite;
} kv_tile_row;

/* Opens an empty tile. heads: the layer's KV heads, or 1. Shape and kernels
 * must outlive the tile. KV_RESOURCE: memory. */
kv_rc kv_tile_open(const kv_shape *shape, const kv_kernels *kernels, int heads,
                   int steps, kv_tile **out, kv_err *e);
void kv_tile_close(kv_tile *x); /* accepts NULL */

/* Steps of a tile of all KV heads: `asked`, or as many as is fastest if that is
 * 0. At least 1, at most the `rows` that attend and what fits in KV_TILE_BYTES.
 * KV_TILE_MOST: the most that a user may request. */
enum { KV_TILE_BYTES = 32 << 20, KV_TILE_MOST = 64 };
int kv_tile_steps(const kv_shape *shape, int rows, int asked);

/* Computes rows t..t+rows-1, rows <= steps, of KV head g of a layer into slot
 * `head`. From row t on every query must be recorded (asserted). attend:
 * scratch for steps * G heads. */
void kv_tile_fill(kv_tile *x, int head, const kv_layer_data *data, int g, int t,
                  int rows, kv_attend_scratch *attend);
/* Does that slot hold row t? */
bool kv_tile_has(const kv_tile *x, int head, int t);
/* That row (asserted to be there). */
kv_tile_row kv_tile_at(const kv_tile *x, int head, int t);
/* Are all rows of that slot finite? */
bool kv_tile_sound(const kv_tile *x, int head);

#endif
