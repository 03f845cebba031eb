/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent vectors of low rank, as in Palu: K and V of a group of KV heads are
 * projected onto the first few of the directions in a file. Both twins read the
 * options.
 *
 * A layer's vector is K of all KV heads before their rotation, then V of all of
 * them. Its parts are the groups of neighboring KV heads: K of each group, then
 * V of each. The latent vector is z of part 0, z of part 1, .. For each part:
 *
 *   z[j] = B_j . x + 0, j < r, a product as arithmetic 1 with scale 1
 *   x^[i] = the chain over j from +0 of fma(z^[j], B_j[i], .)
 *
 * z^ is z as stored. Whether the file's directions are orthonormal is not
 * checked; if they are not, x^ is not near x, however many there are.
 */
#ifndef KV_REF_PARTS_LOWRANK_H
#define KV_REF_PARTS_LOWRANK_H

#include "ref/formats/delta.h"
#include "ref/ground/arith.h"
#include "ref/lane/lane.h"

/* Tensors of a layer in the file, indexes of at->asset. */
enum {
  KV_KEY_BASIS,   /* [groups][rows][width] directions of K */
  KV_VALUE_BASIS, /* the same of V */
  KV_KEY_ENERGY,  /* [groups][rows] share of the squares along each */
  KV_VALUE_ENERGY,
  KV_LOWRANK_TENSORS
};
extern const kv_asset_kind kv_lowrank_kind;

enum { KV_RANKS_UNIFORM, KV_RANKS_ENERGY }; /* allocation */
enum { KV_MOST_RANKS = 4096 };              /* parts of all layers */

/* Options of a method, in its params: the first four lines are parameters;
 * kv_open_lowrank fills in the others. */
typedef struct kv_lowrank {
  kv_file file;
  int32_t share;     /* of the numbers of a vector that are kept, in 2^-20 */
  int unit;          /* ranks are multiples of it */
  int allocation;    /* KV_RANKS_x */
  int latent, group; /* KV_LATENT_x of ref/formats/delta.h; with int4, numbers
                        that share a scale */
  int32_t heads, groups;        /* KV heads a group; groups of a layer */
  int32_t total;                /* numbers of a latent vector */
  kv_delta how;                 /* settings of the coding */
  uint16_t rank[KV_MOST_RANKS]; /* [layer][part] */
} kv_lowrank;

/* A part: its first element and width in the vector; its latent numbers. */
typedef struct kv_rank_part {
  int first, width, rank;
} kv_rank_part;

/* Parts of a layer: K of each group, then V of each. */
KV_FN int kv_rank_parts(const kv_lowrank *o) { return 2 * o->groups; }

/* Part `part`, 0 .. kv_rank_parts - 1, of a layer. */
KV_FN kv_rank_part kv_rank_part_of(const kv_shape *s, const kv_lowrank *o,
                                   int layer, int part) {
  int value = part >= o->groups, g = value ? part - o->groups : part;
  int width = o->heads * (value ? s->d_v : s->d);
  kv_rank_part p;
  p.first = (value ? s->n_kv_heads * s->d : 0) + g * width;
  p.width = width;
  p.rank = o->rank[layer * kv_rank_parts(o) + part];
  return p;
}

/* Checks the file's tensors and the options, computes ranks, and fills in the
 * coding, rope and the workspace of kv_lowrank_code. KV_REFUSED, with a
 * sentence: the file does not fit the model, or the options the file. */
kv_rc kv_open_lowrank(const kv_shape *shape, const char *method, kv_lowrank *o,
                      kv_needs *needs, kv_err *e);

/* In compress_layer: codes the entries from..end-1 of the layer's lanes, from
 * their recorded rows. What cannot be coded is a fault of the first lane. */
void kv_lowrank_code(const kv_at *at, kv_lane *const *lane, int lanes,
                     const kv_lowrank *o, int from, int end);
/* Bytes of workspace for that. */
size_t kv_lowrank_work(const kv_shape *s, const kv_lowrank *o);

#endif
