/* SPDX-License-Identifier: Apache-2.0
 *
 * Coding by directions, a tile of tokens at once: ref/parts/lowrank.h.
 */
#include "ref/backend/attend.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/latents.h"
#include "ref/parts/lowrank.h"
#include <string.h>

static int widest(const kv_shape *s, const kv_lowrank *o) {
  return o->heads * (s->d > s->d_v ? s->d : s->d_v);
}

enum { MOST_BLOCK = 8 }; /* bytes a latent number at most, scales included */

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
  float *x, *row;     /* [n][w]: vectors, and as they are read */
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

/* The first rows of a part's basis. */
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
