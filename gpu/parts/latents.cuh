/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual latents on a device, as in ref/parts/latents.h: the vectors of
 * tokens (K of all lanes before their rotation, then V, w elements), the search
 * for the nearest references, coding a vector as a latent one, and decoding.
 * Used by kernels of gpu/parts/residual.cuh and lowrank.cuh, and by the search
 * of gpu/backend/rebuilt_stages.cu. Unless said otherwise, functions that
 * return nothing are called by all threads of a block together with the same
 * arguments and end with a barrier; the others are any one thread's, without
 * one.
 *
 * A compression's plan (kv_gpu_latents) lists which tokens are coded and in
 * which blocks of their slabs. Blocks are known before they are taken because
 * nothing ever leaves these codings.
 */
#ifndef KV_GPU_LATENTS_CUH
#define KV_GPU_LATENTS_CUH

#include "gpu/block/tile.cuh"
#include "gpu/lane/method.cuh"
#include "gpu/lane/recode.cuh"
#include "gpu/parts/perceptron.cuh"

extern "C" {
#include "ref/parts/residual.h"
}

/* Tokens that a block codes at once, a tile; tiles of a batch, for each of
 * which a lane's workspace has a slot. */
constexpr int KV_CODE_TILE = 8, KV_CODE_SLOTS = KV_LATENT_TILE / KV_CODE_TILE;

/* What a compression does, made by its first kernel. */
typedef struct kv_gpu_compression {
  int32_t from, end;      /* the entries that it looks at: from..end-1 */
  int32_t references;     /* how many there are */
  int32_t coded;          /* how many tokens are coded now */
  unsigned long long bad; /* the first of them that cannot be: its batch << 32 |
                             1 << 16 if it is the decoded row that is not finite
                             | its place in the batch; all ones: none */
} kv_gpu_compression;

/* A compression's plan, at the beginning of the first lane's workspace, the
 * same in all its kernels. most: references that a layer may have. */
typedef struct kv_gpu_latents {
  kv_gpu_compression *now;
  int32_t *id;       /* [most] the references' entries, ascending */
  float *norm, *row; /* [most] their squared lengths; [most][w] their vectors */
  int32_t *entry;    /* [n_tokens] the entries that are coded, ascending */
  int32_t *format, *block; /* [n_tokens] their format, as recode names it; their
                              block in its slabs */
  uint8_t *flag;           /* [n_tokens] scratch */
} kv_gpu_latents;

/* Elements w of a token's vector. */
KV_DEVICE int kv_gpu_vector_width(const kv_shape &s) {
  return s.n_kv_heads * (s.d + s.d_v);
}

/* Takes its workspace. at: of the first lane, with nothing taken yet; by all
 * threads, without a barrier. */
KV_DEVICE kv_gpu_latents kv_gpu_take_latents(kv_gpu_at &at,
                                             const kv_residual &o) {
  size_t t = (size_t)at.layer->shape.n_tokens, most = (size_t)o.most;
  size_t w = (size_t)kv_gpu_vector_width(at.layer->shape);
  kv_gpu_compression *now = KV_GPU_TAKE(at, kv_gpu_compression, 1);
  int32_t *id = KV_GPU_TAKE(at, int32_t, most);
  float *norm = KV_GPU_TAKE(at, float, most);
  float *row = KV_GPU_TAKE(at, float, most *w);
  int32_t *entry = KV_GPU_TAKE(at, int32_t, t);
  int32_t *format = KV_GPU_TAKE(at, int32_t, t);
  int32_t *block = KV_GPU_TAKE(at, int32_t, t);
  return {now,   id,     norm,  row,
          entry, format, block, KV_GPU_TAKE(at, uint8_t, t)};
}

/* --- vectors ------------------------------------------------------------- */

/* The place of an element of a vector: element x of a lane's K, or V. */
typedef struct kv_gpu_part {
  int lane, x;
  bool key;
} kv_gpu_part;

/* The part of element x of a vector. */
KV_DEVICE kv_gpu_part kv_gpu_part_of(const kv_shape &s, int x) {
  int keys = s.n_kv_heads * s.d;
  if (x < keys) return {x / s.d, x % s.d, true};
  return {(x - keys) / s.d_v, (x - keys) % s.d_v, false};
}

/* Element x of the vector of entry i, whose rows are unchanged. */
KV_DEVICE float kv_gpu_vector_raw(const kv_gpu_layer &l, int32_t i, int x) {
  kv_gpu_part p = kv_gpu_part_of(l.shape, x);
  const kv_gpu_lane *lane = &l.lane[p.lane];
  int turned = lane->k_slab[KV_CODED].pre_rope;
  return p.key ? kv_gpu_key_back(l, lane, turned, i, p.x)
               : kv_gpu_value(l, lane, i, p.x);
}

/* The same for a coded entry: what it was decoded to. */
KV_DEVICE float kv_gpu_vector_stored(const kv_gpu_layer &l, int32_t i, int x) {
  kv_gpu_part p = kv_gpu_part_of(l.shape, x);
  const kv_gpu_lane *lane = &l.lane[p.lane];
  kv_cell_ref r = p.key ? lane->k[i] : lane->v[i];
  const kv_gpu_slab *slab = p.key ? lane->k_slab : lane->v_slab;
  return ((const float *)kv_gpu_token_block(slab[r.format], r.block))[p.x];
}

/* --- the nearest references ---------------------------------------------- */

/* How many of the n references are entries up to i. */
KV_DEVICE int kv_gpu_references_to(const kv_gpu_latents &a, int n, int i) {
  int low = 0;
  while (low < n) {
    int middle = (low + n) / 2;
    if (a.id[middle] <= i)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

/* The nearest references so far of a tile of tokens; token j is thread j's. */
typedef struct kv_gpu_nearest {
  float *value;   /* [k][KV_SIDE] distances, ascending, shared */
  int32_t *which; /* [k][KV_SIDE] which references, shared */
  int k, found;   /* how many are wanted; how many the thread's token has */
} kv_gpu_nearest;

/* Inserts reference i at distance v into the thread's, if it is nearer than the
 * farthest of k; of equals the earlier one is nearer. By one thread. */
KV_DEVICE void kv_gpu_nearest_enter(kv_gpu_nearest *t, int i, float v) {
  float *value = t->value + kv_thread();
  int32_t *which = t->which + kv_thread();
  int at = t->found < t->k ? t->found : t->k - 1;
  float farthest =
      t->found < t->k ? kv_float(0x7f800000u) : value[at * KV_SIDE];
  if (!(kv_sub(farthest, v) > 0)) return;
  for (; at > 0 && value[(at - 1) * KV_SIDE] > v; at--) {
    value[at * KV_SIDE] = value[(at - 1) * KV_SIDE];
    which[at * KV_SIDE] = which[(at - 1) * KV_SIDE];
  }
  value[at * KV_SIDE] = v;
  which[at * KV_SIDE] = i;
  if (t->found < t->k) t->found++;
}

/* Shared memory of a search. */
typedef struct kv_gpu_search_room {
  float a[KV_TILE_ROOM], b[KV_TILE_ROOM];
  float v[KV_SIDE * (KV_SIDE + 1)]; /* distances, a row a token */
  float value[(int)KV_MOST_NEAREST * KV_SIDE];
  int32_t which[(int)KV_MOST_NEAREST * KV_SIDE];
} kv_gpu_search_room;

/* s->v: what ranks the distances of a tile of m tokens to the references from
 * `first` on: norm - 2 dot. token(j, x): element x of token j; row, norm: all n
 * references. */
template <class Token>
static __device__ void
kv_gpu_distances(int w, int m, const Token &token, const float *row,
                 const float *norm, int first, int n, kv_gpu_search_room *s) {
  float acc[KV_DOWN_ROWS][KV_ACROSS];
  int r = kv_tile_row(), c = kv_tile_column();
  auto reference = [&](int i, int x) {
    return row[(size_t)(first + i) * (size_t)w + (size_t)x];
  };
  kv_tile_products(w, m, token, n - first, reference, s->a, s->b, acc);
  KV_UNROLL
  for (int i = 0; i < KV_DOWN_ROWS; i++) {
    KV_UNROLL
    for (int j = 0; j < KV_ACROSS; j++) {
      int at = first + c + j;
      float square = at < n ? norm[at] : 0;
      s->v[(r + i) * (KV_SIDE + 1) + c + j] =
          kv_fma(-2.0f, kv_add(acc[i][j], 0.0f), square);
    }
  }
  __syncthreads();
}

/* Finds the k nearest of the first seen(j) references to each token j of m <=
 * KV_SIDE, and calls then(j, found, which) by one thread each: which[i *
 * KV_SIDE] is the i-th nearest, i < found. w: elements of a vector; token, row,
 * norm: as above; n: the most that any token sees. room: shared memory. */
template <class Token, class Seen, class Then>
static __device__ void kv_gpu_search(int w, int m, const Token &token,
                                     const float *row, const float *norm, int n,
                                     int k, const Seen &seen,
                                     kv_gpu_search_room *s, const Then &then) {
  int own = kv_thread(), mine = own < m ? seen(own) : 0;
  kv_gpu_nearest t = {s->value, s->which, k, 0};
  for (int first = 0; first < n; first += KV_SIDE) {
    kv_gpu_distances(w, m, token, row, norm, first, n, s);
    for (int i = 0; own < m && i < KV_SIDE && first + i < mine; i++)
      kv_gpu_nearest_enter(&t, first + i, s->v[own * (KV_SIDE + 1) + i]);
    __syncthreads();
  }
  if (own < m) then(own, t.found, s->which + own);
  __syncthreads();
}

/* --- coding -------------------------------------------------------------- */

/* A slot: the workspace in which a block codes a tile of KV_CODE_TILE tokens.
 */
typedef struct kv_gpu_slot {
  float *x, *mean;    /* [tile][w] vectors; means of their references */
  float *hidden;      /* [tile][hidden] a hidden layer */
  float *z, *of_mean; /* [tile][latent] latent vectors; those of the means */
  char *bytes;        /* a latent vector as it is stored */
} kv_gpu_slot;

/* Elements that a slot's hidden layer needs. */
KV_DEVICE int kv_gpu_hidden_of(const kv_compressor &c) {
  int in = c.gated ? 2 * c.hidden : c.hidden;
  return in > c.back ? in : c.back;
}

/* Takes slot number `which` of a lane, and those before it; at: of that lane,
 * with kv_gpu_latents taken. By all threads, no barrier. */
KV_DEVICE kv_gpu_slot kv_gpu_take_slot(kv_gpu_at &at, const kv_compressor &c,
                                       int which) {
  size_t w = (size_t)kv_gpu_vector_width(at.layer->shape), n = KV_CODE_TILE;
  size_t hidden = (size_t)kv_gpu_hidden_of(c), latent = (size_t)c.latent;
  kv_gpu_slot s = {};
  for (int i = 0; i <= which; i++) {
    s.x = KV_GPU_TAKE(at, float, n *w);
    s.mean = KV_GPU_TAKE(at, float, n *w);
    s.hidden = KV_GPU_TAKE(at, float, n *hidden);
    s.z = KV_GPU_TAKE(at, float, n *latent);
    s.of_mean = KV_GPU_TAKE(at, float, n *latent);
    s.bytes = KV_GPU_TAKE(at, char, 8 * (latent + 1));
  }
  return s;
}

/* z [m][latent] = the compressor of x [m][w], m <= KV_CODE_TILE; of: the file's
 * tensors; hidden: scratch of the slot. */
KV_DEVICE void kv_gpu_delta_code(const kv_compressor &c, const kv_tensor *of,
                                 int m, const float *x, float *hidden,
                                 float *z) {
  int h = c.hidden, in = c.gated ? 2 * h : h, n = c.latent;
  const float *bias = (const float *)of[KV_LATENT_IN_BIAS].data;
  const float *out = (const float *)of[KV_LATENT_OUT_BIAS].data;
  bool gated = c.gated != 0;
  kv_gpu_products<KV_CODE_TILE>(
      m, in, c.width, x, c.width, (const float *)of[KV_LATENT_IN].data,
      [&](int i, int j, float y) {
        hidden[i * in + j] = gated ? y : kv_gelu(kv_add(y, bias[j]));
      });
  for (int i = kv_thread(); gated && i < m * h; i += KV_BLOCK) {
    float *row = hidden + i / h * in + i % h;
    row[0] = kv_mul(kv_silu(row[0]), row[h]);
  }
  __syncthreads();
  kv_gpu_products<KV_CODE_TILE>(m, n, h, hidden, in,
                                (const float *)of[KV_LATENT_OUT].data,
                                [&](int i, int j, float y) {
                                  z[i * n + j] = gated ? y : kv_add(y, out[j]);
                                });
}

/* x [m][w] = the decoder of z [m][latent]; the same. */
KV_DEVICE void kv_gpu_delta_decode(const kv_compressor &c, const kv_tensor *of,
                                   int m, const float *z, float *hidden,
                                   float *x) {
  int w = c.width, n = c.latent, back = c.back;
  const float *in = (const float *)of[KV_LATENT_BACK_IN_BIAS].data;
  const float *out = (const float *)of[KV_LATENT_BACK_BIAS].data;
  const float *last = (const float *)of[KV_LATENT_BACK].data;
  if (c.gated) {
    kv_gpu_products<KV_CODE_TILE>(
        m, w, n, z, n, last, [&](int i, int j, float y) { x[i * w + j] = y; });
    return;
  }
  kv_gpu_products<KV_CODE_TILE>(
      m, back, n, z, n, (const float *)of[KV_LATENT_BACK_IN].data,
      [&](int i, int j, float y) {
        hidden[i * back + j] = kv_gelu(kv_add(y, in[j]));
      });
  kv_gpu_products<KV_CODE_TILE>(
      m, w, back, hidden, back, last,
      [&](int i, int j, float y) { x[i * w + j] = kv_add(y, out[j]); });
}

/* Element x of the mean of row[which[0..n)], rows of w, added up in that order.
 */
KV_DEVICE float kv_gpu_mean_of(const float *row, int w, int n,
                               const int32_t *which, int x) {
  float sum = 0;
  for (int i = 0; i < n; i++)
    sum = kv_add(sum, row[(size_t)which[i] * (size_t)w + (size_t)x]);
  return kv_div(sum, (float)n);
}

#endif
