/* SPDX-License-Identifier: Apache-2.0
 *
 * The chains of logits over coded keys that have their own scales, for tiles of
 * a lane with no other rows. Blocks of one row are fetched unchanged by
 * asynchronous copies. Each thread has two entries; once, it moves their codes
 * to where a block without metadata would begin, and it keeps their ranges.
 * Then it decodes one word of codes of each at a time: four elements of a plane
 * (ref/formats/minmax.h), so x ascends.
 *
 * For every rule of the format token. Order, by all threads of the block
 * together: kv_row_keys_suit, kv_row_keys_fetch, kv_row_keys_align, then
 * kv_row_chains for each pass of queries. A tile that does not suit - rows of
 * other kinds among them, rows in pages, a lane that is re-indexed, keys coded
 * before RoPE, more than two ranges a row - is done by gpu/lane/logits.cuh.
 * gpu/backend/paged_logits.cu fetches rows in pages itself, and then calls
 * kv_row_chains.
 */
#ifndef KV_GPU_KEYS_ROWS_CUH
#define KV_GPU_KEYS_ROWS_CUH

#include "gpu/lane/keys.cuh"

constexpr int KV_ROW_TILE = 2 * KV_BLOCK; /* entries of a tile */
constexpr int KV_ROW_PIECES = 9; /* of 16 bytes of a block at most: 128 bytes of
                                    codes, and its metadata */
constexpr int KV_ROW_WIDTH = 256; /* elements of a key at most */
constexpr int KV_ROW_RANGES = 2;  /* of a key at most */

/* A tile that suits; each thread has a copy. */
typedef struct kv_row_keys {
  kv_minmax how;
  int width, n;     /* elements of a key; entries of the tile */
  int metadata;     /* bytes before the codes of a block: 2, 4 or 8 */
  int ranges, full; /* of a key; pieces that its codes fill */
  kv_piece *code;   /* [full + 1][KV_ROW_TILE], shared: entry j at [..][j]; its
                       block, and when aligned its codes, then its ranges as a
                       kv_quad: scale and least of both */
} kv_row_keys;

/* Do the entries of the tile from `base` on suit? All threads get the same
 * answer. Fills in x; room: the shared memory of x->code. Has a barrier unless
 * the answer is false early. */
KV_DEVICE bool kv_row_keys_suit(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                int base, kv_piece *room, kv_row_keys *x) {
  kv_cell_ref first = lane->k[base];
  if (first.format < KV_CODED || l.needs.reindex) return false;
  const kv_gpu_slab *slab = &lane->k_slab[first.format];
  if (!kv_gpu_has_rows(slab->format) || slab->pre_rope || slab->in.pages ||
      slab->size % 16 || slab->restored)
    return false;
  const kv_minmax how = *(const kv_minmax *)slab->settings;
  int left = lane->n - base, plane = slab->width * how.bits / 8;
  int ranges = (slab->width + how.group - 1) / how.group;
  int metadata = (int)kv_gpu_block_size(*slab, 1).metadata, full = plane / 16;
  *x = {how,      slab->width, left < KV_ROW_TILE ? left : KV_ROW_TILE,
        metadata, ranges,      full,
        room};
  if (slab->width > KV_ROW_WIDTH || plane % 16 ||
      plane * 8 != slab->width * how.bits || full >= KV_ROW_PIECES ||
      ranges > KV_ROW_RANGES || (ranges > 1 && how.group % 16))
    return false;
  bool wrong = false;
  for (int j = kv_thread(); j < x->n; j += KV_BLOCK)
    wrong |= lane->k[base + j].format != first.format;
  return !kv_block_any(wrong);
}

/* Starts the copies of the blocks, which have arrived after kv_async_wait and a
 * barrier; row [KV_ROW_TILE], shared: where each is, written before a barrier.
 */
KV_DEVICE void kv_row_keys_fetch(const char *const *row, const kv_row_keys &x) {
  for (int at = kv_thread(); at < x.n * (x.full + 1); at += KV_BLOCK) {
    int j = at / (x.full + 1), p = at - j * (x.full + 1);
    kv_async_16(&x.code[p * KV_ROW_TILE + j], row[j] + p * 16);
  }
  kv_async_commit();
}

/* The 16 bytes from byte `skip` (2, 4 or 8) on of a followed by b. By one
 * thread. */
KV_DEVICE kv_piece kv_row_piece(const kv_piece &a, const kv_piece &b,
                                int skip) {
  uint32_t word[6] = {a.word[0], a.word[1], a.word[2],
                      a.word[3], b.word[0], b.word[1]};
  kv_piece to;
  KV_UNROLL
  for (int i = 0; i < 4; i++)
    to.word[i] = skip == 2   ? word[i] >> 16 | word[i + 1] << 16
                 : skip == 4 ? word[i + 1]
                             : word[i + 2];
  return to;
}

/* The ranges of entry j of the tile, before it is aligned: scale and least of
 * the first, then of the second. One thread's. */
KV_DEVICE kv_quad kv_row_ranges(const kv_row_keys &x, int j) {
  kv_quad range = {};
  KV_UNROLL
  for (int g = 0; g < KV_ROW_RANGES; g++) { /* places known: registers */
    if (j >= x.n || g >= x.ranges) continue;
    kv_gpu_range r = kv_gpu_range_of(x.how, x.ranges, g, &x.code[j]);
    range.x[2 * g] = r.scale;
    range.x[2 * g + 1] = r.least;
  }
  return range;
}

/* Moves the codes of the thread's two entries, t and t + KV_BLOCK, to piece 0
 * and on, and their ranges after them. The copies must have arrived for all
 * threads; only the same thread reads what this writes. Its barrier is for the
 * compiler: halves that were read are written as words. */
KV_DEVICE void kv_row_keys_align(const kv_row_keys &x) {
  int t = kv_thread();
  kv_quad range[2] = {kv_row_ranges(x, t), kv_row_ranges(x, t + KV_BLOCK)};
  __syncthreads();
  KV_UNROLL
  for (int e = 0; e < 2; e++) {
    if (t + e * KV_BLOCK >= x.n) continue;
    kv_piece *own = x.code + t + e * KV_BLOCK, next = own[0];
    for (int p = 0; p < x.full; p++) {
      kv_piece piece = next;
      next = own[(p + 1) * KV_ROW_TILE];
      own[p * KV_ROW_TILE] = kv_row_piece(piece, next, x.metadata);
    }
    *(kv_quad *)&own[x.full * KV_ROW_TILE] = range[e];
  }
}

/* Decodes a word of codes of each of two entries, by their ranges by[2]: four
 * elements of the first into key[0..3], of the second into key[4..7]. FLOATS:
 * codes are floats of a few bits. One thread's. */
template <bool FLOATS>
KV_DEVICE void kv_row_decode(const kv_minmax &how, const uint32_t *codes,
                             const kv_gpu_range *by, float *key) {
  uint32_t mask = (1u << how.bits) - 1;
  KV_UNROLL
  for (int b = 0; b < 8; b++) {
    const kv_gpu_range &r = by[b / 4];
    if (FLOATS)
      key[b] =
          kv_mul(kv_absmax_float(how.rule, codes[b / 4] >> 8 * (b % 4) & 0xffu),
                 r.scale);
    else
      key[b] =
          kv_fma(kv_minmax_code(codes[b / 4], mask, b % 4), r.scale, r.least);
  }
}

/* Adds to acc [2][QUERIES] the sums of the queries with the thread's two
 * entries. query: [QUERIES][width] in shared memory. No barrier. */
template <int QUERIES, bool FLOATS>
KV_DEVICE void kv_row_chains(const kv_row_keys &x, const kv_quad *query,
                             float *acc) {
  const kv_piece *code = x.code + kv_thread();
  kv_quad own = *(const kv_quad *)&code[x.full * KV_ROW_TILE];
  kv_quad next = *(const kv_quad *)&code[x.full * KV_ROW_TILE + KV_BLOCK];
  int at = 0, width = x.width, full = x.full, bits = x.how.bits;
  for (int shift = 0; shift < 8; shift += bits)
    for (int p = 0; p < full; p++, at += 16, query += 4) {
      int g = at >= x.how.group ? 2 : 0;
      kv_gpu_range by[2] = {
          {g ? own.x[2] : own.x[0], g ? own.x[3] : own.x[1]},
          {g ? next.x[2] : next.x[0], g ? next.x[3] : next.x[1]}};
      kv_piece a = code[p * KV_ROW_TILE];
      kv_piece b = code[p * KV_ROW_TILE + KV_BLOCK];
      KV_UNROLL
      for (int w = 0; w < 4; w++) {
        uint32_t codes[2] = {a.word[w] >> shift, b.word[w] >> shift};
        float key[8];
        kv_row_decode<FLOATS>(x.how, codes, by, key);
        KV_UNROLL
        for (int q = 0; q < QUERIES; q++) {
          kv_quad f = query[q * (width / 4) + w];
          KV_UNROLL
          for (int e = 0; e < 8; e++)
            acc[e / 4 * QUERIES + q] =
                kv_fma(f.x[e % 4], key[e], acc[e / 4 * QUERIES + q]);
        }
      }
    }
}

#endif
