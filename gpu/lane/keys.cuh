/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums that logits are made of, one for each query and the key of each
 * entry. A (query, entry) pair is one chain, acc = fma(q[x], k[x], acc) for x
 * ascending, in one thread. A column here is an element x of a row, x < d. Keys
 * and queries come through shared memory in stages of some columns, and while
 * one stage is computed the next is copied (gpu/block/async.h). A thread has
 * several entries, so that a load of four elements of a query, which all
 * threads of a warp share, serves all of them.
 *
 * kv_key_chains does all of it for rows of one type; the rest are its parts,
 * for kernels whose rows are mixed or coded. All threads of the block call
 * kv_key_chains, _pass and _fetch_* together; the others by any one thread.
 * ENTRIES: entries a thread; those of thread t are t, t + KV_BLOCK, ...
 * QUERIES: at most KV_BLOCK / KV_KEY_QUADS, 16.
 */
#ifndef KV_GPU_KEYS_CUH
#define KV_GPU_KEYS_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/lane/entry.cuh"

/* Stages in memory. In each, an entry's key has KV_KEY_PIECES pieces of 16
 * bytes (two sectors), so 32 columns of 2 bytes, or 16 if columns may have 4. A
 * query has a float for each of these columns, in KV_KEY_QUADS quads of 4. */
constexpr int KV_KEY_STAGES = 2, KV_KEY_PIECES = 4, KV_KEY_COLUMNS = 32;
constexpr int KV_KEY_QUADS = KV_KEY_COLUMNS / 4;

/* One stage: its columns first .. first + width - 1, and where they are in
 * shared memory. */
typedef struct kv_key_slab {
  int first, width; /* columns */
  kv_piece *key;    /* [entries][KV_KEY_PIECES], see kv_key_at */
  kv_quad *query;   /* [QUERIES][KV_KEY_QUADS] */
} kv_key_slab;

/* Memory of all stages, in the block's shared memory; the caller's. */
typedef struct kv_key_room {
  kv_piece *key;  /* [KV_KEY_STAGES][entries][KV_KEY_PIECES] */
  kv_quad *query; /* [KV_KEY_STAGES][QUERIES][KV_KEY_QUADS] */
} kv_key_room;

/* Index of piece p of entry i: swizzled so that the threads of a quarter warp
 * use different banks when they write or read. Entries 8 apart swizzle alike.
 */
KV_DEVICE int kv_key_at(int i, int p) {
  return i * KV_KEY_PIECES + (p ^ (i / 2 % KV_KEY_PIECES));
}

/* Stage s, from 0, of d columns at `columns` a stage; the last may have fewer.
 */
template <int QUERIES, int ENTRIES>
KV_DEVICE kv_key_slab kv_key_stage(const kv_key_room &room, int s, int columns,
                                   int d) {
  int first = s * columns, left = d - first, at = s % KV_KEY_STAGES;
  kv_key_slab x = {first, left < columns ? left : columns,
                   room.key + at * ENTRIES * KV_BLOCK * KV_KEY_PIECES,
                   room.query + at * QUERIES * KV_KEY_QUADS};
  return x;
}

/* --- fetching ------------------------------------------------------------ */

/* kv_key_query is the query, from 0, of which the thread copies columns, and q
 * is the row [d] of that query; a thread past the last query gives the last
 * one's. kv_key_fetch_queries starts the copies of a stage's columns of all
 * queries, and puts zeros past its width. */
KV_DEVICE int kv_key_query() { return kv_thread() / KV_KEY_QUADS; }
template <int QUERIES>
KV_DEVICE void kv_key_fetch_queries(const float *q, const kv_key_slab &s) {
  int at = kv_thread(), x = at % KV_KEY_QUADS * 4, left = (s.width - x) * 4;
  if (at >= QUERIES * KV_KEY_QUADS) return;
  kv_async_piece((kv_piece *)&s.query[at], (const char *)(q + s.first + x),
                 left);
}

/* Starts the copies of a stage's columns of all entries. row[ENTRIES *
 * KV_BLOCK], which all threads read: rows of the trace's type, SIZE bytes an
 * element, or NULL if an entry is not needed; its place is then undefined.
 * `whole`: rows begin at, and are as long as, multiples of 16 bytes. */
template <int SIZE, int ENTRIES>
KV_DEVICE void kv_key_fetch_rows(const char *const *row, const kv_key_slab &s,
                                 bool whole) {
  constexpr int STEP = KV_BLOCK / KV_KEY_PIECES, ALL = ENTRIES * KV_KEY_PIECES;
  int i = kv_thread() / KV_KEY_PIECES, p = kv_thread() % KV_KEY_PIECES;
  int from = s.first * SIZE + p * 16, left = s.width * SIZE - p * 16;
  kv_piece *to = s.key + kv_key_at(i, p);
  if (left <= 0) return;
  if (whole) {
    KV_UNROLL
    for (int u = 0; u < ALL; u++) {
      const char *own = row[i + u * STEP];
      if (own) kv_async_line(to + u * KV_BLOCK, own + from);
    }
    return;
  }
  KV_ROLLED
  for (int u = 0; u < ALL; u++) {
    const char *own = row[i + u * STEP];
    if (own) kv_async_piece(to + u * KV_BLOCK, own + from, left);
  }
}

/* --- links ---------------------------------------------------------------- */

/* Writes the elements of a piece to x as floats: 4 of KV_F32, 8 of a type of 2
 * bytes. */
template <kv_dtype TYPE>
KV_DEVICE void kv_key_widen(const kv_piece &piece, float *x) {
  KV_UNROLL
  for (int w = 0; w < 4; w++)
    if (TYPE == KV_F32)
      x[w] = kv_float(piece.word[w]);
    else
      kv_gpu_widen_two(TYPE, piece.word[w], x + 2 * w);
}

/* Adds four columns to the chains of the thread's entries: those of entry e are
 * key[8 * e ..], those of query q query[q * KV_KEY_QUADS]. key [ENTRIES][8],
 * acc [ENTRIES][QUERIES]. */
template <int QUERIES, int ENTRIES>
KV_DEVICE void kv_key_link_four(const float *key, const kv_quad *query,
                                float *acc) {
  KV_UNROLL
  for (int q = 0; q < QUERIES; q++) {
    kv_quad a = query[q * KV_KEY_QUADS];
    KV_UNROLL
    for (int e = 0; e < ENTRIES; e++) KV_UNROLL
    for (int x = 0; x < 4; x++)
      acc[e * QUERIES + q] =
          kv_fma(a.x[x], key[8 * e + x], acc[e * QUERIES + q]);
  }
}

/* Adds the columns of a stage, which has arrived for all threads, to the chains
 * of the thread's entries, acc [ENTRIES][QUERIES]. Columns past the width are
 * zeros: a step of 0 * 0 can only change a chain from -0 to +0, which the final
 * + 0 of a logit does anyway. */
template <int QUERIES, int ENTRIES, kv_dtype TYPE>
KV_DEVICE void kv_key_link(const kv_key_slab &s, float *acc) {
  constexpr int EACH = TYPE == KV_F32 ? 4 : 8;
  KV_UNROLL
  for (int p = 0; p < KV_KEY_PIECES; p++) {
    if (p * EACH >= s.width) break;
    const kv_piece *own = s.key + kv_key_at(kv_thread(), p);
    float key[8 * ENTRIES];
    KV_UNROLL
    for (int e = 0; e < ENTRIES; e++)
      kv_key_widen<TYPE>(own[e * KV_BLOCK * KV_KEY_PIECES], key + 8 * e);
    KV_UNROLL
    for (int x = 0; x < EACH; x += 4)
      kv_key_link_four<QUERIES, ENTRIES>(key + x, s.query + (p * EACH + x) / 4,
                                         acc);
  }
}

/* Passes all d columns through the stages, `columns` a stage: fetch(stage)
 * starts the copies of its keys, link(stage) is called when they have arrived
 * and adds it to the chains. q: the row for kv_key_fetch_queries. Ends with a
 * barrier: the room may then be used again. */
template <int QUERIES, int ENTRIES, class Fetch, class Link>
KV_DEVICE void kv_key_pass(const kv_key_room &room, int columns, int d,
                           const float *q, const Fetch &fetch,
                           const Link &link) {
  auto stage = [&](int s) {
    return kv_key_stage<QUERIES, ENTRIES>(room, s, columns, d);
  };
  auto start = [&](int s) {
    if (s * columns < d) {
      fetch(stage(s));
      kv_key_fetch_queries<QUERIES>(q, stage(s));
    }
    kv_async_commit();
  };
  for (int s = 0; s < KV_KEY_STAGES; s++) start(s);
  for (int s = 0; s * columns < d; s++) {
    kv_async_wait<KV_KEY_STAGES - 1>();
    __syncthreads();
    link(stage(s));
    __syncthreads();
    start(s + KV_KEY_STAGES);
  }
}

/* Adds to acc [ENTRIES][QUERIES], which was zeroed, the sums of QUERIES queries
 * with the thread's entries, not yet scaled: acc[e * QUERIES + q]. row: as in
 * kv_key_fetch_rows, of TYPE, written before a barrier; sums of an entry whose
 * row is NULL are undefined. q: the row for kv_key_fetch_queries. */
template <int QUERIES, int ENTRIES, kv_dtype TYPE>
KV_DEVICE void kv_key_chains(int d, const char *const *row, const float *q,
                             const kv_key_room &room, float *acc) {
  constexpr int SIZE = TYPE == KV_F32 ? 4 : 2;
  bool whole = d * SIZE % 16 == 0;
  kv_key_pass<QUERIES, ENTRIES>(
      room, KV_KEY_COLUMNS * 2 / SIZE, d, q,
      [&](const kv_key_slab &s) {
        kv_key_fetch_rows<SIZE, ENTRIES>(row, s, whole);
      },
      [&](const kv_key_slab &s) {
        kv_key_link<QUERIES, ENTRIES, TYPE>(s, acc);
      });
}

#endif
