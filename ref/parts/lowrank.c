/* SPDX-License-Identifier: Apache-2.0
 *
 * The directions in a file, and how many of them each part uses:
 * ref/parts/lowrank.h.
 */
#include "ref/parts/lowrank.h"
#include "ref/backend/attend.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/latents.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kv_tensor_ask tensors[] = {
    [KV_KEY_BASIS] = {.name = "layers.*.key.basis", .rank = 3},
    [KV_VALUE_BASIS] = {.name = "layers.*.value.basis", .rank = 3},
    [KV_KEY_ENERGY] = {.name = "layers.*.key.energy", .rank = 2},
    [KV_VALUE_ENERGY] = {.name = "layers.*.value.energy", .rank = 2},
    [KV_LOWRANK_TENSORS] = {.name = NULL}};

const kv_asset_kind kv_lowrank_kind = {"kvreplay-palu", tensors};

/* --- the file ------------------------------------------------------------ */

static const kv_tensor *tensor_of(const kv_lowrank *o, int layer, int which) {
  return &kv_asset_layer(o->file.asset, layer)[which];
}

static kv_rc other_shape(const char *method, const kv_lowrank *o, int layer,
                         int which, const char *is, kv_err *e) {
  const kv_tensor *t = tensor_of(o, layer, which);
  char shape[64];
  int n =
      snprintf(shape, sizeof shape, "[%d, %d", (int)t->dim[0], (int)t->dim[1]);
  if (tensors[which].rank == 3)
    n += snprintf(shape + n, sizeof shape - (size_t)n, ", %d", (int)t->dim[2]);
  return kv_fail(e, KV_REFUSED,
                 "%s: %s of layer %d in %s is %s] and must be %s for this "
                 "model and the other tensors; give bases of this model",
                 method, strchr(tensors[which].name, '*') + 2, layer,
                 o->file.asset->path, shape, is);
}

/* Basis [groups, rows, width] and energy [groups, rows] of a side. */
static kv_rc check_side(const char *method, const kv_lowrank *o, int layer,
                        int side, int width, kv_err *e) {
  const kv_tensor *b = tensor_of(o, layer, KV_KEY_BASIS + side);
  const kv_tensor *n = tensor_of(o, layer, KV_KEY_ENERGY + side);
  char want[64];
  snprintf(want, sizeof want, "[%d, up to %d, %d]", o->groups, width, width);
  if (b->dim[0] != o->groups || b->dim[1] > width || b->dim[2] != width)
    return other_shape(method, o, layer, KV_KEY_BASIS + side, want, e);
  snprintf(want, sizeof want, "[%d, %d]", o->groups, (int)b->dim[1]);
  if (n->dim[0] != b->dim[0] || n->dim[1] != b->dim[1])
    return other_shape(method, o, layer, KV_KEY_ENERGY + side, want, e);
  return KV_OK;
}

static kv_rc check_groups(const kv_shape *s, const char *method, kv_lowrank *o,
                          kv_err *e) {
  const kv_asset *a = o->file.asset;
  int64_t groups = tensor_of(o, a->layer[0], KV_KEY_BASIS)->dim[0];
  if (groups < 1 || s->n_kv_heads % groups != 0)
    return kv_fail(e, KV_REFUSED,
                   "%s: %s has %d groups of KV heads, which do not divide this "
                   "model's %d; give bases of this model",
                   method, a->path, (int)groups, s->n_kv_heads);
  o->groups = (int32_t)groups;
  o->heads = s->n_kv_heads / o->groups;
  if (s->n_layers * kv_rank_parts(o) <= KV_MOST_RANKS) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %d layers of %d ranks exceed the limit of %d; use bases "
                 "of larger groups",
                 method, s->n_layers, kv_rank_parts(o), (int)KV_MOST_RANKS);
}

/* Latents rotated by a Hadamard matrix have meaning only in whole blocks. */
static kv_rc check_turn(const char *method, const kv_lowrank *o, kv_err *e) {
  const char *text = kv_asset_meta(o->file.asset, "turn");
  int turn = text ? atoi(text) : 0;
  if (turn < 2 || o->unit % turn == 0) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: the directions of %s are turned in blocks of %d; unit=%d "
                 "must be a multiple of that",
                 method, o->file.asset->path, turn, o->unit);
}

/* --- ranks --------------------------------------------------------------- */

/* share * width / unit, to the nearest, halves to even; at least one. */
static int uniform_rank(const kv_lowrank *o, int width) {
  int64_t of = (int64_t)o->share * width, by = (int64_t)o->unit << 20;
  int64_t whole = of / by, rest = 2 * (of % by);
  whole += rest > by || (rest == by && whole % 2);
  whole = whole < 1 ? o->unit : whole * o->unit;
  return whole < width ? (int)whole : width;
}

static uint16_t *ranks_of(kv_lowrank *o, int layer) {
  return o->rank + layer * kv_rank_parts(o);
}

static const kv_tensor *basis_of(const kv_lowrank *o, int layer, int part) {
  int side = part >= o->groups;
  return tensor_of(o, layer, KV_KEY_BASIS + side);
}

/* What a part gains: the share of its side's squares in directions
 * from..from+n-1. */
static float wins(const kv_lowrank *o, int layer, int part, int from, int n) {
  int side = part >= o->groups, g = part - side * o->groups;
  const kv_tensor *t = tensor_of(o, layer, KV_KEY_ENERGY + side);
  const float *x = (const float *)t->data + g * t->dim[1] + from;
  float sum = 0;
  for (int i = 0; i < n; i++) sum = sum + x[i];
  return sum;
}

/* Gives a unit to the part that gains most; ties: the first. */
static void give(kv_lowrank *o, int layer) {
  uint16_t *rank = ranks_of(o, layer);
  float most = 0;
  int best = -1;
  for (int p = 0; p < kv_rank_parts(o); p++) {
    if (rank[p] + o->unit > basis_of(o, layer, p)->dim[1]) continue;
    float x = wins(o, layer, p, rank[p], o->unit);
    if (best < 0 || x > most) best = p, most = x;
  }
  assert(best >= 0 && "uniform ranks have room, so these have");
  rank[best] = (uint16_t)(rank[best] + o->unit);
}

static kv_rc check_units(const char *method, const kv_lowrank *o, int layer,
                         kv_err *e) {
  for (int p = 0; p < kv_rank_parts(o); p++) {
    int rows = (int)basis_of(o, layer, p)->dim[1];
    if (rows % o->unit != 0)
      return kv_fail(e, KV_REFUSED,
                     "%s: allocation=energy needs units of %d, which do not "
                     "divide the %d directions of %s in layer %d; choose "
                     "another unit, or allocation=uniform",
                     method, o->unit, rows, p < o->groups ? "keys" : "values",
                     layer);
  }
  return KV_OK;
}

/* Computes the ranks of a layer. Both allocations have the same total. */
static kv_rc share_out(const kv_shape *s, const char *method, kv_lowrank *o,
                       int layer, kv_err *e) {
  uint16_t *rank = ranks_of(o, layer);
  o->total = 0;
  for (int p = 0; p < kv_rank_parts(o); p++) {
    int width = kv_rank_part_of(s, o, layer, p).width;
    int r = uniform_rank(o, width), rows = (int)basis_of(o, layer, p)->dim[1];
    if (r > rows || r > UINT16_MAX)
      return kv_fail(e, KV_REFUSED,
                     "%s: this share needs %d directions of %s, but %s has %d "
                     "in layer %d; choose a smaller share",
                     method, r, p < o->groups ? "keys" : "values",
                     o->file.asset->path, rows, layer);
    rank[p] = (uint16_t)r;
    o->total += r;
  }
  if (o->allocation == KV_RANKS_UNIFORM) return KV_OK;
  kv_rc rc = check_units(method, o, layer, e);
  if (rc) return rc;
  for (int p = 0; p < kv_rank_parts(o); p++) rank[p] = (uint16_t)o->unit;
  for (int left = o->total - kv_rank_parts(o) * o->unit; left > 0;
       left -= o->unit)
    give(o, layer);
  return KV_OK;
}

static kv_rc check_packing(const char *method, const kv_lowrank *o, int layer,
                           kv_err *e) {
  for (int p = 0; p < kv_rank_parts(o) && o->latent == KV_LATENT_INT4; p++) {
    int rank = o->rank[layer * kv_rank_parts(o) + p];
    if (rank % o->group != 0)
      return kv_fail(
          e, KV_REFUSED,
          "%s: latent=int4 cannot pack %d numbers of a part in groups of %d; "
          "choose another group or unit, or latent=fp16",
          method, rank, o->group);
  }
  return KV_OK;
}

/* --- open ---------------------------------------------------------------- */

static void fill_in(const kv_shape *s, kv_lowrank *o, kv_needs *needs) {
  o->how = (kv_delta){.latent = o->total,
                      .type = o->latent,
                      .group = o->latent == KV_LATENT_INT4 ? o->group : 0,
                      .ordered = true};
  needs->rope = true;
  needs->codings = 1;
  needs->coding[0] = KV_CODING(&kv_format_delta, &o->how, true, KV_BOTH_SIDES);
  needs->work = kv_lowrank_work(s, o);
}

kv_rc kv_open_lowrank(const kv_shape *shape, const char *method, kv_lowrank *o,
                      kv_needs *needs, kv_err *e) {
  const kv_asset *a = o->file.asset;
  kv_rc rc = check_groups(shape, method, o, e);
  if (!rc) rc = check_turn(method, o, e);
  for (int i = 0; i < a->layers && !rc; i++) {
    int l = a->layer[i];
    rc = check_side(method, o, l, 0, o->heads * shape->d, e);
    if (!rc) rc = check_side(method, o, l, 1, o->heads * shape->d_v, e);
    if (!rc) rc = share_out(shape, method, o, l, e);
    if (!rc) rc = check_packing(method, o, l, e);
  }
  if (!rc) fill_in(shape, o, needs);
  return rc;
}

/* Coding by directions, a tile of tokens at once: ref/parts/lowrank.h. */

static int widest(const kv_shape *s, const kv_lowrank *o) {
  return o->heads * (s->d > s->d_v ? s->d : s->d_v);
}

enum { MOST_BLOCK = 8 }; /* most bytes of a latent number, scales included */

size_t kv_lowrank_work(const kv_shape *s, const kv_lowrank *o) {
  size_t n = KV_LATENT_TILE, w = (size_t)kv_vector_width(s);
  size_t wide = (size_t)widest(s, o), total = (size_t)o->total;
  size_t floats = n * (2 * w + wide + total) + KV_PACK * wide;
  return floats * sizeof(float) + n * MOST_BLOCK * (total + 1) +
         wide * sizeof(void *) + 64 * 16;
}

typedef struct tile {
  const kv_at *at;
  const kv_lowrank *o;
  int n, w;
  float *x, *row;     /* [n][w] vectors; vectors as read back */
  float *z;           /* [n][total] */
  float *part, *pack; /* [n][widest] */
  const void **basis; /* [widest] rows of a basis */
  char *block;
} tile;

static tile open_tile(const kv_at *at, const kv_lowrank *o) {
  size_t n = KV_LATENT_TILE, w = (size_t)kv_vector_width(at->shape);
  size_t wide = (size_t)widest(at->shape, o), total = (size_t)o->total;
  tile t = {.at = at, .o = o, .w = (int)w};
  t.x = KV_TAKE(at->work, float, n *w);
  t.row = KV_TAKE(at->work, float, n *w);
  t.z = KV_TAKE(at->work, float, n *total);
  t.part = KV_TAKE(at->work, float, n *wide);
  t.pack = KV_TAKE(at->work, float, KV_PACK *wide);
  t.basis = KV_TAKE(at->work, const void *, wide);
  t.block = KV_TAKE(at->work, char, n *MOST_BLOCK *(total + 1));
  return t;
}

/* Points `basis` to the first rows of a part's basis. */
static void rows_of(tile *t, int part, const kv_rank_part *p) {
  int side = part >= t->o->groups, g = part - side * t->o->groups;
  const kv_tensor *b = &t->at->asset[KV_KEY_BASIS + side];
  const float *first = (const float *)b->data + g * b->dim[1] * b->dim[2];
  for (int i = 0; i < p->rank; i++) t->basis[i] = first + i * b->dim[2];
}

/* z = B x. */
static void project(tile *t) {
  int to = 0;
  for (int part = 0; part < kv_rank_parts(t->o); part++) {
    kv_rank_part p = kv_rank_part_of(t->at->shape, t->o, t->at->layer, part);
    rows_of(t, part, &p);
    for (int j = 0; j < p.rank; j += KV_PACK)
      t->at->kernels->logits(t->n, p.rank - j < KV_PACK ? p.rank - j : KV_PACK,
                             p.width, t->x + p.first, (size_t)t->w,
                             t->basis + j, KV_F32, 1, t->z + to + j,
                             (size_t)t->o->total, t->pack);
    to += p.rank;
  }
}

/* x^ = B^T z. */
static void rebuild(tile *t) {
  int from = 0;
  for (int part = 0; part < kv_rank_parts(t->o); part++) {
    kv_rank_part p = kv_rank_part_of(t->at->shape, t->o, t->at->layer, part);
    size_t size = (size_t)p.width * sizeof(float);
    rows_of(t, part, &p);
    memset(t->part, 0, (size_t)t->n * size);
    t->at->kernels->weigh(t->n, p.rank, p.width, t->z + from,
                          (size_t)t->o->total, t->basis, KV_F32, t->part);
    for (int i = 0; i < t->n; i++)
      memcpy(t->row + i * t->w + p.first, t->part + i * p.width, size);
    from += p.rank;
  }
}

/* Latent vectors as they are stored. */
static void store(tile *t, kv_lane *l, int first) {
  size_t size = kv_delta_bytes(&t->o->how);
  for (int i = 0; i < t->n; i++) {
    float *z = t->z + (size_t)i * (size_t)t->o->total;
    char *block = t->block + (size_t)i * size;
    if (!kv_delta_put(&t->o->how, z, block))
      kv_latent_fails(&l->fault, l->data->layer, l->step, l->id[first + i],
                      false);
    kv_delta_get(t->at->kernels, &t->o->how, block, z);
  }
}

static void code(tile *t, kv_lane *const *lane, int lanes, int first, int n) {
  static const int32_t none[1] = {KV_NO_TOKEN};
  size_t size = kv_delta_bytes(&t->o->how);
  t->n = n;
  for (int i = 0; i < n; i++)
    kv_vector_recorded(t->at, lane, lanes, first + i, t->x + i * t->w);
  project(t);
  store(t, lane[0], first);
  rebuild(t);
  for (int i = 0; i < n; i++) {
    if (!kv_all_finite(t->row + i * t->w, t->w))
      kv_latent_fails(&lane[0]->fault, t->at->layer, t->at->step,
                      lane[0]->id[first + i], true);
    kv_recode_token(lane, lanes, first + i, kv_coded(t->at, 0), none,
                    t->block + (size_t)i * size, t->row + i * t->w);
  }
}

void kv_lowrank_code(const kv_at *at, kv_lane *const *lane, int lanes,
                     const kv_lowrank *o, int from, int end) {
  tile t = open_tile(at, o);
  for (int i = from; i < end; i += KV_LATENT_TILE)
    code(&t, lane, lanes, i,
         end - i < KV_LATENT_TILE ? end - i : KV_LATENT_TILE);
}
