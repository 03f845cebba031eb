/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on the arrays of a lane: lists of flagged indexes, which methods
 * also use, and moving entries to other places, for the verbs
 * (gpu/lane/verbs.cuh). All threads of the block call kv_gpu_indexes, _pull and
 * _permute together with the same arguments; each ends with a barrier, and
 * _pull and _permute begin with one. The others are their parts, or are called
 * by a single thread if stated.
 *
 * kv_gpu_pull moves entries array by array and tile by tile: a tile is read,
 * then written, and no later tile reads what an earlier one wrote, so arrays
 * are compacted in place. A tile costs one barrier and one wait for memory,
 * because each thread has KV_GPU_TILE loads in flight. Cost: O(entries /
 * KV_BLOCK).
 */
#ifndef KV_GPU_ARRAY_CUH
#define KV_GPU_ARRAY_CUH

#include "gpu/block/block.cuh"
#include "gpu/shared/lane.h"
#include "ref/ground/arith.h"

#include <string.h>

/* Flags that a thread reads at once; elements of an array that it moves at
 * once. */
enum { KV_GPU_FLAGS = 8, KV_GPU_TILE = 32 };

/* Bit j of the answer: flag[mine + j] is not 0, for j < KV_GPU_FLAGS and mine +
 * j < n. By a single thread; one load if it reads eight aligned bytes. */
KV_DEVICE uint32_t kv_gpu_flags(const uint8_t *flag, int mine, int n) {
  static_assert(KV_GPU_FLAGS == sizeof(uint64_t), "a flag is a byte");
  const uint8_t *at = flag + mine;
  uint32_t set = 0;
  if (mine + KV_GPU_FLAGS <= n && (uintptr_t)at % sizeof(uint64_t) == 0) {
    uint64_t all = *(const uint64_t *)at;
    KV_UNROLL
    for (int j = 0; j < KV_GPU_FLAGS; j++)
      set |= (uint32_t)((all >> 8 * j & 0xff) != 0) << j;
    return set;
  }
  for (int j = 0; j < KV_GPU_FLAGS && mine + j < n; j++)
    set |= (uint32_t)(at[j] != 0) << j;
  return set;
}

/* Writes the indexes i in first..n-1 with (flag[i] != 0) == want into out,
 * ascending, and returns how many. out has room for n - first. The caller has a
 * barrier between the last write to flag and this. */
KV_DEVICE int kv_gpu_indexes(int first, int n, const uint8_t *flag, bool want,
                             int32_t *out) {
  int found = 0;
  for (int base = first; base < n; base += (int)KV_BLOCK * KV_GPU_FLAGS) {
    int mine = base + kv_thread() * KV_GPU_FLAGS, total;
    int left = n - mine < KV_GPU_FLAGS ? n - mine : (int)KV_GPU_FLAGS;
    uint32_t in = kv_gpu_flags(flag, mine, n);
    if (!want) in = ~in & (left > 0 ? (1u << left) - 1 : 0);
    int32_t *to = out + found + kv_block_before(__popc(in), &total);
    for (int j = 0; j < KV_GPU_FLAGS; j++)
      if (in >> j & 1u) *to++ = mine + j;
    found += total;
  }
  __syncthreads();
  return found;
}

/* --- entries ------------------------------------------------------------- */

/* All that a lane's arrays hold of one entry: fields as in kv_gpu_lane; wide
 * and narrow are its columns of 64 and of 32 bits, by column. */
typedef struct kv_gpu_entry {
  uint32_t id, weight, last;
  uint8_t tier;
  kv_cell_ref k, v;
  int64_t wide[KV_MAX_COLUMNS];
  float narrow[KV_MAX_COLUMNS];
} kv_gpu_entry;

/* Reads entry i into *e, and writes *e over entry i; by a single thread,
 * without a barrier. */
KV_DEVICE void kv_gpu_read_entry(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                 int i, kv_gpu_entry *e) {
  e->id = lane->id[i];
  e->weight = lane->weight[i];
  e->tier = lane->tier ? lane->tier[i] : 0;
  e->last = lane->last ? lane->last[i] : 0;
  e->k = lane->k[i];
  e->v = lane->v[i];
  for (int c = 0; c < KV_MAX_COLUMNS && c < l.needs.columns; c++) {
    if (l.needs.column[c] == KV_INT64)
      e->wide[c] = lane->column[c].i[i];
    else
      e->narrow[c] = lane->column[c].f[i];
  }
}

KV_DEVICE void kv_gpu_write_entry(const kv_gpu_layer &l, kv_gpu_lane *lane,
                                  int i, const kv_gpu_entry *e) {
  lane->id[i] = e->id;
  lane->weight[i] = e->weight;
  if (lane->tier) lane->tier[i] = e->tier;
  if (lane->last) lane->last[i] = e->last;
  lane->k[i] = e->k;
  lane->v[i] = e->v;
  for (int c = 0; c < KV_MAX_COLUMNS && c < l.needs.columns; c++) {
    if (l.needs.column[c] == KV_INT64)
      lane->column[c].i[i] = e->wide[c];
    else
      lane->column[c].f[i] = e->narrow[c];
  }
}

/* Reads, and writes, element i of an array of words; by a single thread. */
template <class Word> KV_DEVICE Word kv_gpu_word(const char *a, int i) {
  Word w;
  a += (size_t)i * sizeof w;
  memcpy(&w, __builtin_assume_aligned(a, sizeof w), sizeof w);
  return w;
}
template <class Word> KV_DEVICE void kv_gpu_put(char *a, int i, Word w) {
  a += (size_t)i * sizeof w;
  memcpy(__builtin_assume_aligned(a, sizeof w), &w, sizeof w);
}

/* kv_gpu_pull of one array of words, by all threads together; NULL: does
 * nothing. Has barriers, but none at its end. */
template <class Word, int WAY>
static __device__ void kv_gpu_slide(void *array, int count, int first,
                                    const int32_t *list) {
  char *a = (char *)array;
  for (int base = 0; a && base < count; base += (int)KV_BLOCK * KV_GPU_TILE) {
    Word own[KV_GPU_TILE];
    int mine = base + kv_thread(), p = first + WAY * mine;
    KV_UNROLL
    for (int j = 0; j < KV_GPU_TILE; j++) {
      if (mine + j * KV_BLOCK >= count) break;
      int at = p + WAY * j * KV_BLOCK;
      own[j] = kv_gpu_word<Word>(a, list ? list[at] : at + WAY);
    }
    __syncthreads();
    KV_UNROLL
    for (int j = 0; j < KV_GPU_TILE; j++) {
      if (mine + j * KV_BLOCK >= count) break;
      kv_gpu_put(a, p + WAY * j * KV_BLOCK, own[j]);
    }
  }
}

/* As kv_gpu_pull, with its arguments; bit c of `wide`: column c has 64 bits.
 * Weights are moved only if there are member lists: all are 1 until something
 * is merged. */
template <int WAY>
static KV_APART __device__ void
kv_gpu_pull_arrays(const kv_gpu_lane *lane, int columns, uint32_t wide,
                   int count, int first, const int32_t *list) {
  void *weight = lane->last ? lane->weight : nullptr;
  __syncthreads();
  KV_ROLLED
  for (int i = -3; i < columns; i++) {
    void *a = i == -3 ? lane->id : i == -2 ? weight : lane->last;
    if (i >= 0) a = wide >> i & 1 ? nullptr : lane->column[i].f;
    kv_gpu_slide<uint32_t, WAY>(a, count, first, list);
  }
  KV_ROLLED
  for (int i = -2; i < columns; i++) {
    void *a = i == -2 ? lane->k : lane->v;
    if (i >= 0) a = wide >> i & 1 ? lane->column[i].i : nullptr;
    kv_gpu_slide<uint64_t, WAY>(a, count, first, list);
  }
  kv_gpu_slide<uint8_t, WAY>(lane->tier, count, first, list);
  __syncthreads();
}

/* Moves entries by one list: place p takes the entry at list[p], or at p + WAY
 * if list is NULL, for the `count` places p = first, first + WAY, .. WAY is 1
 * or -1. A source must not be behind its place, (list[p] - p) * WAY >= 0, and
 * list must ascend in that direction. lane->n stays. */
template <int WAY>
static __device__ void kv_gpu_pull(const kv_gpu_layer &l, kv_gpu_lane *lane,
                                   int count, int first, const int32_t *list) {
  int columns = l.needs.columns;
  uint32_t wide = 0;
  for (int c = 0; c < columns; c++)
    wide |= (uint32_t)(l.needs.column[c] == KV_INT64) << c;
  kv_gpu_pull_arrays<WAY>(lane, columns, wide, count, first, list);
}

/* a[i] = a[list[i]] for i < n, through lane->spare; a may be NULL. */
template <class T>
KV_DEVICE void kv_gpu_gather(kv_gpu_lane *lane, T *a, int n,
                             const int32_t *list) {
  T *to = (T *)lane->spare;
  if (!a) return;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) to[i] = a[list[i]];
  __syncthreads();
  for (int i = kv_thread(); i < n; i += KV_BLOCK) a[i] = to[i];
  __syncthreads();
}

/* Place i takes the entry at list[i], for i < n, with list in any order and
 * without an entry twice. Costs more than kv_gpu_pull: each array goes through
 * lane->spare. */
KV_DEVICE void kv_gpu_permute(const kv_gpu_layer &l, kv_gpu_lane *lane, int n,
                              const int32_t *list) {
  __syncthreads();
  kv_gpu_gather(lane, lane->id, n, list);
  kv_gpu_gather(lane, lane->weight, n, list);
  kv_gpu_gather(lane, lane->tier, n, list);
  kv_gpu_gather(lane, lane->k, n, list);
  kv_gpu_gather(lane, lane->v, n, list);
  kv_gpu_gather(lane, lane->last, n, list);
  for (int c = 0; c < l.needs.columns; c++) {
    if (l.needs.column[c] == KV_INT64)
      kv_gpu_gather(lane, lane->column[c].i, n, list);
    else
      kv_gpu_gather(lane, lane->column[c].f, n, list);
  }
}

#endif
