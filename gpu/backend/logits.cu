/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits of a tile of query rows against the entries of every lane: each
 * (query, entry) pair is one chain of fma over x ascending (arithmetic 1), in
 * one thread (gpu/lane/keys.cuh). Keys are read once for up to 8 queries: those
 * of a lane are divided evenly, 11 heads into 6 and 5. A block has 256 entries.
 *
 * If the views are already known (masked), entries that no head of the lane
 * sees are not read and their logits are not written.
 *
 * PLAIN: every entry is an unchanged row of its lane's pool, two entries a
 * thread. Otherwise a block whose entries are all coded alike decodes them on
 * the way (here if they share scales by channel; in a separate kernel,
 * logits_rows.cu, if rows have their own scales), and gpu/lane/logits.cuh reads
 * the rest, 128 at a time.
 */
#include "gpu/lane/keys.cuh"
#include "gpu/lane/logits.cuh"
#include "gpu/shared/device.h"
#include <string.h>

/* --- chains over coded keys ----------------------------------------------- */

/* The chains of logits over coded keys, where a tile of a lane is nothing else:
 * rows of codes come as they are by asynchronous copies, and the scales and
 * minima of the few blocks that the rows are of become floats in shared memory
 * once. A thread has two neighbouring entries of one block, and decodes a word
 * of codes of each at a time: four elements of a plane (ref/formats/minmax.h),
 * so x ascends.
 *
 * Order, by all threads of the block together: kv_coded_suits, kv_coded_rows,
 * kv_coded_fetch, then kv_coded_chains for each pass of queries. FORMAT is a
 * kv_gpu_format whose rows share scales by channel and whose settings are a
 * kv_minmax. A tile that does not suit - rows of other kinds among them, a lane
 * that is re-indexed, keys coded before RoPE, a thread's two entries in two
 * blocks, too many blocks - is left to gpu/lane/logits.cuh. */

/* Entries of a tile; blocks that they may be of, at most. */
constexpr int KV_CODED_TILE = 2 * KV_BLOCK, KV_CODED_BLOCKS = 8;
constexpr int KV_CODED_WIDTH = 256;      /* elements of a key at most */
constexpr int KV_CODED_ROOM = 24 * 1024; /* bytes of codes and ranges at most */

/* A tile that suits; each thread has a copy. */
typedef struct kv_coded_keys {
  kv_minmax how;
  int width,
      pieces;     /* elements of a key; pieces of 16 bytes that its codes fill
                   */
  int n;          /* entries of the tile */
  kv_piece *code; /* [pieces][2][KV_BLOCK]: entry 2 t + e at [..][e][t] */
  float *range;   /* [blocks][2][width] scales, then minima */
  int blocks,
      block; /* how many; which of them the thread's two entries are of */
} kv_coded_keys;

/* Do the entries of the tile from `base` on suit? All threads get the same
 * answer. Fills in x, and block [KV_CODED_BLOCKS] in shared memory with where
 * the blocks are; room: KV_CODED_ROOM bytes of shared memory for codes and
 * ranges. Has barriers, not all of them where the answer is false early. */
template <int FORMAT>
KV_DEVICE bool kv_coded_suits(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                              int base, char *room, const char **block,
                              kv_coded_keys *x) {
  kv_cell_ref first = lane->k[base];
  if (first.format < KV_CODED || l.needs.reindex) return false;
  const kv_gpu_slab *slab = &lane->k_slab[first.format];
  if (slab->format != FORMAT || slab->pre_rope || slab->size % 16 ||
      slab->restored)
    return false;
  const kv_minmax how = *(const kv_minmax *)slab->settings;
  int left = lane->n - base, t = kv_thread(), total;
  x->how = how;
  x->width = slab->width;
  x->n = left < KV_CODED_TILE ? left : KV_CODED_TILE;
  int plane = x->width * how.bits / 8;
  x->pieces = plane / 16;
  if (x->width > KV_CODED_WIDTH || x->width % 8 || plane % 16 ||
      plane * 8 != x->width * how.bits)
    return false;
  auto entry = [&](int j) { return lane->k[base + (j < x->n ? j : x->n - 1)]; };
  kv_cell_ref own = entry(2 * t), next = entry(2 * t + 1);
  bool begins = t == 0 || entry(2 * t - 1).block != own.block;
  bool wrong = own.format != first.format || next.format != first.format ||
               own.block != next.block;
  int before = kv_block_rank(begins, &total);
  x->blocks = total;
  x->block = before + begins - 1;
  x->code = (kv_piece *)room;
  x->range = (float *)(room + x->pieces * KV_CODED_TILE * 16);
  int64_t size = x->pieces * KV_CODED_TILE * 16 + total * x->width * 8;
  if (kv_block_any(wrong) || total > KV_CODED_BLOCKS || size > KV_CODED_ROOM)
    return false;
  if (begins) block[x->block] = slab->data + (size_t)own.block * slab->size;
  return true;
}

/* Writes where the codes of each entry are into row [KV_CODED_TILE], shared.
 * The caller has a barrier before it and after it. */
KV_DEVICE void kv_coded_rows(const kv_gpu_lane *lane, int base,
                             const char *const *block, const kv_coded_keys &x,
                             const char **row) {
  for (int e = 0; e < 2; e++) {
    int j = 2 * kv_thread() + e;
    if (j < x.n)
      row[j] = block[x.block] + 4 * x.width +
               lane->k[base + j].member * x.pieces * 16;
  }
}

/* Starts the copies of the codes and makes the ranges floats: both are there
 * for all threads after kv_async_wait and a barrier. */
KV_DEVICE void kv_coded_fetch(const char *const *row, const char *const *block,
                              const kv_coded_keys &x) {
  int rows = KV_BLOCK / x.pieces; /* that the block copies at a time */
  int first = kv_thread() / x.pieces, p = kv_thread() - first * x.pieces;
  kv_piece *to = x.code + p * KV_CODED_TILE;
  for (int j = first; first < rows && j < x.n; j += rows)
    kv_async_16(&to[j % 2 * KV_BLOCK + j / 2], row[j] + p * 16);
  kv_async_commit();
  int each = x.width / 4;
  for (int b = 0; b < x.blocks; b++)
    for (int at = kv_thread(); at < each; at += KV_BLOCK) {
      kv_piece piece = ((const kv_piece *)block[b])[at];
      kv_key_widen<KV_F16>(piece, x.range + 8 * (b * each + at));
    }
}

/* Decodes four elements of each of the thread's two entries, from a word of
 * codes of each: those of the first into key[0..3], of the second into
 * key[8..11]. range: the elements' scales, `width` later their minima. A
 * product of a code and a scale is exact, so the fused operation is the
 * reference's product and sum. One thread's. */
KV_DEVICE void kv_coded_decode(const uint32_t *codes, uint32_t mask,
                               const float *range, int width, float *key) {
  kv_quad step = *(const kv_quad *)range;
  kv_quad min = *(const kv_quad *)(range + width);
  KV_UNROLL
  for (int b = 0; b < 8; b++)
    key[b / 4 * 8 + b % 4] = kv_fma(kv_minmax_code(codes[b / 4], mask, b % 4),
                                    step.x[b % 4], min.x[b % 4]);
}

/* Adds to acc [2][QUERIES] the sums of the queries with the thread's two
 * entries. query: [QUERIES][width] in shared memory. No barrier. */
template <int QUERIES>
KV_DEVICE void kv_coded_chains(const kv_coded_keys &x, const kv_quad *query,
                               float *acc) {
  const float *range = x.range + x.block * 2 * x.width;
  const kv_piece *code = x.code + kv_thread();
  uint32_t mask = (1u << x.how.bits) - 1;
  int width = x.width, pieces = x.pieces, bits = x.how.bits;
  for (int shift = 0; shift < 8; shift += bits)
    for (int p = 0; p < pieces; p++) {
      kv_piece own = code[p * KV_CODED_TILE];
      kv_piece next = code[p * KV_CODED_TILE + KV_BLOCK];
      KV_UNROLL
      for (int w = 0; w < 4; w++) {
        uint32_t codes[2] = {own.word[w] >> shift, next.word[w] >> shift};
        float key[16];
        kv_coded_decode(codes, mask, range + 4 * w, width, key);
        KV_UNROLL
        for (int q = 0; q < QUERIES; q++) {
          kv_quad a = query[q * (width / 4) + w];
          KV_UNROLL
          for (int e = 0; e < 8; e++)
            acc[e / 4 * QUERIES + q] = kv_fma(
                a.x[e % 4], key[e / 4 * 8 + e % 4], acc[e / 4 * QUERIES + q]);
        }
      }
      range += 16;
      query += 4;
    }
}

constexpr int MOST = KV_LOGITS_MOST, ENTRIES = KV_LOGITS_EACH,
              TILE = KV_LOGITS_TILE;

template <int QUERIES>
static __device__ void plain(const kv_gpu_layer &l, const kv_logits_task &a,
                             const kv_key_room &room) {
  KV_SHARED(const char *, row, TILE);
  kv_logits_own<ENTRIES> own = {a.base + kv_thread(), KV_BLOCK, {}, {}};
  KV_UNROLL
  for (int e = 0; e < ENTRIES; e++) {
    int at = e * KV_BLOCK + kv_thread(), i = a.base + at;
    own.mine[e] = kv_logits_wanted(l, a, i);
    row[at] = nullptr;
    if (own.mine[e]) row[at] = kv_gpu_raw_at(a.lane->k_raw, a.lane->k[i].block);
  }
  __syncthreads();
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    const float *q = kv_logits_query(l, a.lane, j, count);
    int d = l.shape.d;
    if (l.shape.dtype == KV_F16)
      kv_key_chains<QUERIES, ENTRIES, KV_F16>(d, row, q, room, acc);
    else if (l.shape.dtype == KV_BF16)
      kv_key_chains<QUERIES, ENTRIES, KV_BF16>(d, row, q, room, acc);
    else
      kv_key_chains<QUERIES, ENTRIES, KV_F32>(d, row, q, room, acc);
  });
}

/* The tile, if its entries are all coded in FORMAT and suit; whether they did.
 */
template <int QUERIES, int FORMAT>
static __device__ bool coded(const kv_gpu_layer &l, const kv_logits_task &a,
                             char *room, kv_quad *query) {
  KV_SHARED(const char *, row, KV_CODED_TILE);
  KV_SHARED(const char *, block, KV_CODED_BLOCKS);
  kv_coded_keys x;
  if (a.masked || l.shape.d % 4 ||
      !kv_coded_suits<FORMAT>(l, a.lane, a.base, room, block, &x))
    return false;
  kv_logits_own<2> own = {a.base + 2 * kv_thread(), 1, {}, {}};
  for (int e = 0; e < 2; e++) {
    own.mine[e] = own.first + e < a.lane->n;
    if (own.mine[e]) own.bias[e] = kv_logits_bias(l, a.lane, own.first + e);
  }
  __syncthreads();
  kv_coded_rows(a.lane, a.base, block, x, row);
  __syncthreads();
  kv_coded_fetch(row, block, x);
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    kv_logits_fetch<QUERIES>(l, a, j, count, query);
    kv_async_wait<0>();
    __syncthreads();
    kv_coded_chains<QUERIES>(x, query, acc);
    __syncthreads();
  });
  return true;
}

/* Memory of a block: pieces of keys, quads of queries. */
template <int QUERIES, bool PLAIN> struct sizes {
  static constexpr int KEYS =
      PLAIN ? KV_KEY_STAGES * TILE * KV_KEY_PIECES : KV_CODED_ROOM / 16;
  static constexpr int QUERY = PLAIN ? KV_KEY_STAGES * QUERIES * KV_KEY_QUADS
                                     : QUERIES * KV_CODED_WIDTH / 4;
};

template <int QUERIES, bool PLAIN>
static __global__ void logits(const __grid_constant__ kv_gpu_layer l, int rows,
                              bool masked) {
  typedef sizes<QUERIES, PLAIN> size;
  constexpr int MIXED = KV_LOGITS_STAGES;
  static_assert(TILE == KV_CODED_TILE, "the same tiles");
  static_assert(PLAIN || (size::KEYS - MIXED) * sizeof(kv_piece) >=
                             KV_BLOCK * sizeof(kv_key_row),
                "rows beside the stages of keys");
  KV_SHARED(kv_piece, key, size::KEYS);
  KV_SHARED(kv_quad, query, size::QUERY);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * TILE, end = base + TILE;
  kv_logits_task a = {lane, base, rows * lane->queries, masked};
  if (base >= kv_gpu_visible(l, lane, rows - 1)) return;
  if (PLAIN) {
    plain<QUERIES>(l, a, {key, query});
    return;
  }
  if (coded<QUERIES, KV_GPU_channel>(l, a, (char *)key, query)) return;
  for (; a.base < end && a.base < lane->n; a.base += KV_BLOCK)
    kv_logits_mixed<QUERIES>(l, a, {key, query}, (kv_key_row *)(key + MIXED));
}

/* What the host knows of the keys of all lanes. */
typedef enum keys_are { UNCHANGED, CODED_BY_CHANNEL, CODED_BY_ROW } keys_are;

static keys_are kind_of(const kv_gpu_layer *l) {
  const kv_needs *n = &l->needs;
  bool coded = n->merges || n->reindex, channel = n->reindex;
  for (int i = 0; i < n->codings; i++) {
    const kv_coding *c = &n->coding[i];
    if (!kv_codes_keys(c)) continue;
    coded = true;
    channel |= !c->format || strcmp(c->format->name, "channel") == 0;
  }
  return !coded ? UNCHANGED : channel ? CODED_BY_CHANNEL : CODED_BY_ROW;
}

template <int QUERIES>
static void start(void *stream, const kv_gpu_layer *l, int rows, bool masked) {
  if (kind_of(l) == UNCHANGED)
    KV_LAUNCH(stream, (logits<QUERIES, true>), kv_logits_grid(l), KV_BLOCK, *l,
              rows, masked);
  else
    KV_LAUNCH(stream, (logits<QUERIES, false>), kv_logits_grid(l), KV_BLOCK, *l,
              rows, masked);
}

extern "C" void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l,
                                    int rows, int masked) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *, int, bool) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  if (kind_of(l) == CODED_BY_ROW)
    kv_gpu_start_row_logits(stream, l, rows, masked);
  else
    starts[kv_logits_queries(l, rows) - 1](stream, l, rows, masked != 0);
  kv_gpu_start_cap(stream, l, rows, masked);
}
