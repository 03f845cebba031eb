/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of logits in gpu/backend share: a block's task, its queries,
 * its entries and their sums; and kv_logits_mixed, which computes logits of
 * entries stored in any mixture of types and formats, more slowly than the
 * kernels of one type. Device functions are called by all threads of a block
 * unless said otherwise; l is the layer, and its logits are l.s,
 * [rows][n_heads][l.stride]. QUERIES: those that share a pass.
 */
#ifndef KV_GPU_LOGITS_CUH
#define KV_GPU_LOGITS_CUH

#include "gpu/lane/keys.cuh"
#include "ref/ground/softcap.h"

/* --- chains over any mixture of keys -------------------------------------- */

/* The chains of logits (gpu/lane/keys.cuh) for entries stored in any mixture of
 * ways, including re-indexed ones. Coded or rotated keys are computed into
 * their stage as floats, others are copied; each thread has one entry, of any
 * type. Slower than the kernels of one type, but correct for every format.
 * Others call kv_key_chains_mixed, after each thread has written its entry's
 * kv_key_row_of to shared memory. */

/* An entry's key. */
typedef struct kv_key_row {
  kv_gpu_row row;     /* at NULL: the entry is not needed */
  kv_gpu_turns turns; /* back NULL: no re-indexing */
} kv_key_row;

/* Element x of a key that is rotated to its place (turns). By one thread, like
 * the next four. */
KV_DEVICE float kv_key_placed(const kv_gpu_layer &l, const kv_key_row &r,
                              int x) {
  kv_gpu_pair p = kv_gpu_pair_of(kv_gpu_turned_of(l), l.shape.d, x);
  return kv_gpu_placed(p, r.turns, x, kv_gpu_element(r.row, p.first),
                       kv_gpu_element(r.row, p.second));
}

/* The key of entry i of the lane; mine false: it is not needed. */
KV_DEVICE kv_key_row kv_key_row_of(const kv_gpu_layer &l,
                                   const kv_gpu_lane *lane, int i, bool mine) {
  kv_key_row r = {kv_gpu_plain_row(nullptr, KV_F32), {nullptr, nullptr}};
  if (!mine) return r;
  r.row = kv_gpu_key_row(l, lane, i);
  if (l.needs.reindex) r.turns = kv_gpu_turns_of(l, lane->id[i], i);
  return r;
}

/* True if its elements are computed, not copied. */
KV_DEVICE bool kv_key_computed(const kv_key_row &r) {
  return r.row.slab || r.turns.back;
}

/* The type of its elements in its stage. */
KV_DEVICE kv_dtype kv_key_type(const kv_key_row &r) {
  return kv_key_computed(r) ? KV_F32 : (kv_dtype)r.row.type;
}

/* Computes four elements of a key from x on, a multiple of 4, into *to, zeros
 * past its end. */
KV_DEVICE void kv_key_compute(const kv_gpu_layer &l, const kv_key_row &r, int x,
                              kv_piece *to) {
  float k[4] = {};
  bool as_stored = !r.turns.back && !r.row.turn && x + 4 <= l.shape.d;
  if (!as_stored || !kv_gpu_decode_four(*r.row.slab, kv_gpu_row_block(r.row),
                                        r.row.member, x, k)) {
    KV_ROLLED
    for (int e = 0; e < 4; e++)
      kv_gpu_push(k, x + e >= l.shape.d ? 0
                     : r.turns.back     ? kv_key_placed(l, r, x + e)
                                        : kv_gpu_element(r.row, x + e));
  }
  KV_UNROLL
  for (int e = 0; e < 4; e++) to->word[e] = kv_bits(k[e]);
}

/* Fills, or starts to fill, a stage with its columns (gpu/lane/keys.cuh) of row
 * [KV_BLOCK], shared; all threads together, no barrier. */
KV_DEVICE void kv_key_fetch_mixed(const kv_gpu_layer &l, const kv_key_row *row,
                                  const kv_key_slab &s) {
  KV_ROLLED
  for (int u = 0; u < KV_KEY_PIECES; u++) {
    int at = u * KV_BLOCK + kv_thread(), p = at % KV_KEY_PIECES;
    const kv_key_row &r = row[at / KV_KEY_PIECES];
    if (!r.row.at) continue;
    kv_piece *to = &s.key[kv_key_at(at / KV_KEY_PIECES, p)];
    int size = kv_key_type(r) == KV_F32 ? 4 : 2, left = s.width * size - p * 16;
    if (left <= 0) continue;
    if (kv_key_computed(r))
      kv_key_compute(l, r, s.first + 4 * p, to);
    else
      kv_async_piece(to, r.row.at + s.first * size + p * 16, left);
  }
}

/* Adds to acc [QUERIES] the sums of the queries with the thread's entry, whose
 * key is row[thread]; row [KV_BLOCK], shared, was written before a barrier. q,
 * room: as in kv_key_chains. All threads together; has barriers, and ends with
 * one. */
template <int QUERIES>
KV_DEVICE void kv_key_chains_mixed(const kv_gpu_layer &l, const kv_key_row *row,
                                   const float *q, const kv_key_room &room,
                                   float *acc) {
  const kv_key_row &own = row[kv_thread()];
  kv_dtype type = kv_key_type(own);
  kv_key_pass<QUERIES, 1>(
      room, KV_KEY_COLUMNS / 2, l.shape.d, q,
      [&](const kv_key_slab &s) { kv_key_fetch_mixed(l, row, s); },
      [&](const kv_key_slab &s) {
        if (own.row.at && type == KV_F32)
          kv_key_link<QUERIES, 1, KV_F32>(s, acc);
        else if (own.row.at && type == KV_F16)
          kv_key_link<QUERIES, 1, KV_F16>(s, acc);
        else if (own.row.at)
          kv_key_link<QUERIES, 1, KV_BF16>(s, acc);
      });
}

/* Queries that share a pass over keys, at most; entries of a thread; of a
 * block. */
constexpr int KV_LOGITS_MOST = 8, KV_LOGITS_EACH = 2;
constexpr int KV_LOGITS_TILE = KV_LOGITS_EACH * KV_BLOCK;
/* Pieces of keys that kv_logits_mixed has, before its rows. */
constexpr int KV_LOGITS_STAGES = KV_KEY_STAGES * KV_BLOCK * KV_KEY_PIECES;

/* What a block computes: entries base .. of a lane, for a tile of queries. */
typedef struct kv_logits_task {
  const kv_gpu_lane *lane;
  int base;    /* the first entry */
  int all;     /* queries of the tile: rows of the lane's query heads */
  bool masked; /* only entries that l's mask has are wanted */
} kv_logits_task;

/* Index of query j of the lane's tile among the layer's; a decode step has one
 * row, so needs no division. By any one thread. */
KV_DEVICE size_t kv_logits_place(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                 int j) {
  int row = 0, queries = lane->queries;
  if (j >= queries) row = j / queries;
  return (size_t)row * (size_t)l.shape.n_heads +
         (size_t)(lane->first_head + j - row * queries);
}

/* Query of the thread in the pass of queries j.., for kv_key_fetch_queries. By
 * any one thread. */
KV_DEVICE const float *kv_logits_query(const kv_gpu_layer &l,
                                       const kv_gpu_lane *lane, int j,
                                       int count) {
  int q = kv_key_query();
  size_t at = kv_logits_place(l, lane, j + (q < count ? q : count - 1));
  return l.q + at * (size_t)l.shape.d;
}

/* True if entry i is one of the lane's and its logits are wanted. By any one
 * thread. */
KV_DEVICE bool kv_logits_wanted(const kv_gpu_layer &l, const kv_logits_task &a,
                                int i) {
  return i < a.lane->n && (!a.masked || kv_gpu_seen(l, a.lane, i));
}

/* The bias of entry i in its logits: 0 if the model has a cap, after which
 * gpu/backend/cap.cu adds it. By any one thread. */
KV_DEVICE float kv_logits_bias(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               int i) {
  return l.shape.softcap > 0 ? 0 : kv_gpu_bias(l, lane, i);
}

/* Writes the logits of entry i: of its sums acc[] with queries j .. j + count -
 * 1 of the tile, scaled, with the bias added; a model's cap is not applied yet
 * (kv_gpu_start_cap). By the thread that holds them. */
template <int QUERIES>
KV_DEVICE void kv_logits_keep(const kv_gpu_layer &l, const kv_logits_task &a,
                              int i, int j, int count, float bias,
                              const float *acc) {
  KV_UNROLL
  for (int q = 0; q < QUERIES; q++) {
    if (q >= count) continue;
    float s = kv_logit(acc[q], l.shape.scale, 0);
    if (bias != 0) s = kv_add(kv_add(s, bias), 0.0f);
    l.s[kv_logits_place(l, a.lane, j + q) * (size_t)l.stride + (size_t)i] = s;
  }
}

/* The COUNT entries of a thread: first, first + step, ..; which are wanted, and
 * their bias. */
template <int COUNT> struct kv_logits_own {
  int first, step;
  bool mine[COUNT];
  float bias[COUNT];
};

/* Calls chains(j, count, acc) for up to QUERIES queries j .. at a time, which
 * adds to acc [COUNT][QUERIES] and may have barriers, and writes the logits of
 * the thread's entries. */
template <int QUERIES, int COUNT, class Chains>
KV_DEVICE void kv_logits_passes(const kv_gpu_layer &l, const kv_logits_task &a,
                                const kv_logits_own<COUNT> &own,
                                const Chains &chains) {
  for (int j = 0; j < a.all; j += QUERIES) {
    int count = a.all - j < QUERIES ? a.all - j : QUERIES;
    float acc[COUNT * QUERIES];
    KV_UNROLL
    for (int u = 0; u < COUNT * QUERIES; u++) acc[u] = 0;
    chains(j, count, acc);
    KV_UNROLL
    for (int e = 0; e < COUNT; e++)
      if (own.mine[e])
        kv_logits_keep<QUERIES>(l, a, own.first + e * own.step, j, count,
                                own.bias[e], acc + e * QUERIES);
  }
}

/* The logits of KV_BLOCK entries from a.base on, one a thread, in any storage.
 * room: memory of the stages, with KV_LOGITS_STAGES pieces of keys; row:
 * [KV_BLOCK]; both in shared memory. Has barriers. */
template <int QUERIES>
KV_DEVICE void kv_logits_mixed(const kv_gpu_layer &l, const kv_logits_task &a,
                               const kv_key_room &room, kv_key_row *row) {
  int i = a.base + kv_thread();
  kv_logits_own<1> own = {i, 0, {kv_logits_wanted(l, a, i)}, {0}};
  if (own.mine[0]) own.bias[0] = kv_logits_bias(l, a.lane, i);
  row[kv_thread()] = kv_key_row_of(l, a.lane, i, own.mine[0]);
  __syncthreads();
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    const float *q = kv_logits_query(l, a.lane, j, count);
    kv_key_chains_mixed<QUERIES>(l, row, q, room, acc);
  });
}

/* Starts the copies of queries j .. j + count - 1, and of the last one again
 * where QUERIES are more, into query [QUERIES][d / 4]; d is a multiple of 4.
 * They have arrived after kv_async_wait and a barrier. */
template <int QUERIES>
KV_DEVICE void kv_logits_fetch(const kv_gpu_layer &l, const kv_logits_task &a,
                               int j, int count, kv_quad *query) {
  int each = l.shape.d / 4;
  for (int at = kv_thread(); at < QUERIES * each; at += KV_BLOCK) {
    int q = at / each;
    size_t from = kv_logits_place(l, a.lane, j + (q < count ? q : count - 1));
    kv_async_16((kv_piece *)&query[at],
                l.q + from * (size_t)l.shape.d + 4 * (at % each));
  }
  kv_async_commit();
}

/* On the host: how many queries of a tile of `rows` rows a pass takes, at most
 * KV_LOGITS_MOST, so that all passes have about as many. */
static inline int kv_logits_queries(const kv_gpu_layer *l, int rows) {
  int all = rows * (l->shape.n_heads / l->lanes);
  int passes = (all + KV_LOGITS_MOST - 1) / KV_LOGITS_MOST;
  return (all + passes - 1) / passes;
}

/* On the host: a block for KV_LOGITS_TILE entries of each lane. */
static inline dim3 kv_logits_grid(const kv_gpu_layer *l) {
  constexpr int CHUNKS = KV_LOGITS_TILE / KV_GPU_CHUNK;
  return dim3((unsigned)((l->chunks + CHUNKS - 1) / CHUNKS),
              (unsigned)l->lanes);
}

/* gpu/backend/logits_rows.cu, on the host: starts the logits of `rows` rows of
 * lanes whose coded keys have scales of their own, as kv_gpu_start_logits does
 * for others. */
extern "C" void kv_gpu_start_row_logits(void *stream, const kv_gpu_layer *l,
                                        int rows, int masked);

/* gpu/backend/cap.cu, on the host, after the kernels of logits: applies the
 * model's cap, if it has one, to the logits that they write for `rows` rows,
 * and adds biases; masked: as those were started. */
extern "C" void kv_gpu_start_cap(void *stream, const kv_gpu_layer *l, int rows,
                                 int masked);

#endif
