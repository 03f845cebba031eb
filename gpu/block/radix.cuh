/* SPDX-License-Identifier: Apache-2.0
 *
 * The selection behind all rankings: kv_radix_top flags the first entries of
 * several lanes, ranked by larger key, then lower entry, then lower lane.
 * gpu/parts/parts.cuh calls it; everything else here is a step of it. All
 * threads of the block call every function together with the same arguments,
 * unless stated to be called by a single thread; arguments and results are the
 * same for all threads.
 *
 * The cut in the ranking is found digit by digit, first of the key, then of the
 * place (the order of equals), from a histogram in shared memory. When few
 * entries are left that the digits so far do not decide, these are listed in
 * shared memory, the other flags are written, and later digits read only the
 * list. Integers only, so the order of atomics does not matter.
 *
 * `Keys` is a struct that describes what is ranked, with __device__ functions:
 *   item, key               types: an element, its unsigned key
 *   WIDE                    false: every entry counts one
 *   lanes, n(l), row(l)     how many lanes; items of lane l, and where they are
 *   flags(l)                where the flags of lane l's items are written
 *   of(item), weight(key)   an item's key; what an entry of that key counts
 *
 * Cost: two reads of all items if the highest 11 bits of the key leave at most
 * KV_LISTED entries undecided, three if the highest 22 do; with more equals, a
 * read for each digit and one or two more.
 */
#ifndef KV_GPU_RADIX_CUH
#define KV_GPU_RADIX_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/block/read.cuh"

/* --- the histogram of a digit --------------------------------------------- */

/* The histogram of a digit for gpu/block/radix.cuh, and the bucket at which its
 * sum from the highest bucket down reaches a number. Order: kv_radix_clear
 * once, then for each digit kv_radix_add by any threads and kv_radix_find.
 * Called by all threads of the block together, except kv_radix_add. */

/* Bits of a digit; buckets of the histogram; entries that the list has room
 * for. Threads are summed in groups of KV_RADIX_GROUP. */
enum { KV_DIGIT = 11, KV_BUCKETS = 1 << KV_DIGIT, KV_LISTED = 4096 };
enum { KV_RADIX_GROUP = 8, KV_RADIX_GROUPS = (int)KV_BLOCK / KV_RADIX_GROUP };

/* Scratch of a selection, in shared memory. A bucket's sum has 32 bits; with
 * WIDE 64, the upper 32 in words of their own, as shared memory adds 32 bits
 * natively and 64 only by trying again. */
template <bool WIDE> struct alignas(16) kv_radix {
  uint32_t low[KV_BUCKETS], high[WIDE ? (int)KV_BUCKETS : 4];
  uint32_t list[KV_LISTED]; /* places of open entries */
  int listed;               /* how many there are; may be more than fit */
  uint64_t part[KV_BLOCK], group[KV_RADIX_GROUPS]; /* sums of threads' buckets,
                                                      of groups of threads */
  uint64_t found[3]; /* bucket, its contribution, its sum: kv_radix_find */
};

/* Empties the histogram; ends with a barrier. */
template <bool WIDE> static __device__ void kv_radix_clear(kv_radix<WIDE> *r) {
  for (int b = kv_thread(); b < KV_BUCKETS; b += KV_BLOCK) {
    r->low[b] = 0;
    if (WIDE) r->high[b] = 0;
  }
  __syncthreads();
}

/* Adds w to bucket b, without WIDE 1 whatever w is. By any thread. */
template <bool WIDE>
static __device__ void kv_radix_add(kv_radix<WIDE> *r, int b, uint64_t w) {
  if (!WIDE) {
    atomicAdd(&r->low[b], 1u);
    return;
  }
  uint32_t low = (uint32_t)w, high = (uint32_t)(w >> 32);
  if (low) high += atomicAdd(&r->low[b], low) + low < low;
  if (high) atomicAdd(&r->high[b], high);
}

/* Buckets of a thread; kv_radix_take reads their sums into own, the highest
 * bucket first, and empties them. */
enum { KV_RADIX_EACH = (int)KV_BUCKETS / KV_BLOCK };
template <bool WIDE>
static __device__ void kv_radix_take(kv_radix<WIDE> *r, uint64_t *own) {
  enum { QUADS = (int)KV_RADIX_EACH / 4 };
  int first = KV_BUCKETS - (kv_thread() + 1) * KV_RADIX_EACH;
  kv_piece *low = (kv_piece *)(r->low + first);
  kv_piece *high = (kv_piece *)(r->high + (WIDE ? first : 0));
  kv_piece none = {{0, 0, 0, 0}};
  KV_UNROLL
  for (int q = 0; q < QUADS; q++) {
    kv_piece a = low[q], b = WIDE ? high[q] : none;
    low[q] = none;
    if (WIDE) high[q] = none;
    KV_UNROLL
    for (int j = 0; j < 4; j++)
      own[KV_RADIX_EACH - 1 - 4 * q - j] =
          (uint64_t)b.word[j] << 32 | a.word[j];
  }
}

/* Returns to each thread the sum of r->part of the threads before it, by their
 * groups and then within its own group. Has a barrier. */
template <bool WIDE>
static __device__ uint64_t kv_radix_before(kv_radix<WIDE> *r) {
  int t = kv_thread(), mine = t / KV_RADIX_GROUP;
  uint64_t before = 0;
  if (t < KV_RADIX_GROUPS) {
    uint64_t sum = 0;
    KV_UNROLL
    for (int i = 0; i < KV_RADIX_GROUP; i++)
      sum += r->part[t * KV_RADIX_GROUP + i];
    r->group[t] = sum;
  }
  __syncthreads();
  KV_UNROLL
  for (int g = 0; g < KV_RADIX_GROUPS; g++)
    before += g < mine ? r->group[g] : 0;
  KV_UNROLL
  for (int i = 0; i < KV_RADIX_GROUP; i++)
    before += i < t % KV_RADIX_GROUP ? r->part[mine * KV_RADIX_GROUP + i] : 0;
  return before;
}

/* Returns the bucket in which the sum from the highest one down reaches *k,
 * 1 <= *k <= sum of all. *k becomes what that bucket must contribute, *all the
 * bucket's sum. Begins with a barrier; the histogram is empty again. */
template <bool WIDE>
static __device__ int kv_radix_find(kv_radix<WIDE> *r, uint64_t *k,
                                    uint64_t *all) {
  uint64_t own[KV_RADIX_EACH], sum = 0;
  int t = kv_thread();
  __syncthreads();
  kv_radix_take(r, own);
  KV_UNROLL
  for (int j = 0; j < KV_RADIX_EACH; j++) sum += own[j];
  r->part[t] = sum;
  __syncthreads();
  uint64_t before = kv_radix_before(r);
  if (before < *k && *k <= before + sum) {
    KV_UNROLL
    for (int j = 0; j < KV_RADIX_EACH; j++) {
      if (before < *k && *k <= before + own[j]) {
        r->found[0] = (uint64_t)(KV_BUCKETS - 1 - t * KV_RADIX_EACH - j);
        r->found[1] = *k - before;
        r->found[2] = own[j];
      }
      before += own[j];
    }
  }
  __syncthreads();
  *k = r->found[1];
  *all = r->found[2];
  return (int)r->found[0];
}

/* Loads of 16 bytes that a thread has on their way (kv_block_read). */
enum { KV_LOADS = 8 };

/* What is known of the cut. Open are the entries whose key and place agree with
 * the known digits: of them those are chosen that come first until their
 * weights reach k. Each thread has a copy. */
template <class Keys> struct kv_cut {
  typename Keys::key key, key_mask; /* known digits of the key; their bits */
  uint32_t place, place_mask;       /* the same of last - place */
  int key_left, place_left;         /* bits that are not known, the lowest */
  uint64_t k, all; /* weight still to be chosen; that of all open entries, all
                      ones before the first digit is known */
  uint32_t last;   /* the last place of all */
};

/* --- reading -------------------------------------------------------------- */

/* Calls take(lane, first entry, items, how many) until all items were given, in
 * any order, each to one thread. No barrier. */
template <class Keys, class Take>
static __device__ void kv_radix_scan(const Keys &x, Take take) {
  typedef typename Keys::item item;
  for (int l = 0; l < x.lanes; l++)
    kv_block_read<KV_LOADS>(
        x.row(l), x.n(l),
        [&](int i, const item *own, int each) { take(l, i, own, each); });
}

/* The place of entry i of lane l: its number in the order of equals. A single
 * thread's. */
KV_DEVICE uint32_t kv_radix_place(int i, int lanes, int l) {
  return (uint32_t)i * (uint32_t)lanes + (uint32_t)l;
}

/* The key of the entry at a place. A single thread's. */
template <class Keys>
static __device__ typename Keys::key kv_radix_key_at(const Keys &x,
                                                     uint32_t place) {
  uint32_t lanes = (uint32_t)x.lanes, i = place, l = 0;
  if (lanes > 1) i = place / lanes, l = place % lanes;
  return x.of(x.row((int)l)[i]);
}

/* Calls take(key, place) for all entries in r->list, each by one thread. No
 * barrier. */
template <class Keys, class Take>
static __device__ void
kv_radix_listed(const Keys &x, const kv_radix<Keys::WIDE> *r, Take take) {
  enum { AHEAD = 4 };
  int m = r->listed;
  for (int j = kv_thread(); j < m; j += (int)KV_BLOCK * AHEAD) {
    uint32_t place[AHEAD];
    typename Keys::key key[AHEAD];
    KV_UNROLL
    for (int u = 0; u < AHEAD; u++) {
      if (j + u * KV_BLOCK >= m) break;
      place[u] = r->list[j + u * KV_BLOCK];
      key[u] = kv_radix_key_at(x, place[u]);
    }
    KV_UNROLL
    for (int u = 0; u < AHEAD; u++)
      if (j + u * KV_BLOCK < m) take(key[u], place[u]);
  }
}

/* --- the cut -------------------------------------------------------------- */

/* True if the entry is open. A single thread's. */
template <class Keys>
static __device__ bool kv_radix_open(const kv_cut<Keys> &c,
                                     typename Keys::key key, uint32_t place) {
  return (key & c.key_mask) == c.key &&
         ((c.last - place) & c.place_mask) == c.place;
}

/* True if it ranks before all open ones. By a single thread. */
template <class Keys>
static __device__ bool kv_radix_sure(const kv_cut<Keys> &c,
                                     typename Keys::key key, uint32_t place) {
  typename Keys::key own = key & c.key_mask;
  return own > c.key ||
         (own == c.key && ((c.last - place) & c.place_mask) > c.place);
}

/* True if nothing is left to decide: all open entries are chosen, or no digit
 * is left (as when weights are NaN). */
template <class Keys>
static __device__ bool kv_radix_done(const kv_cut<Keys> &c) {
  return ((!Keys::WIDE || c.key_left == 0) && c.k == c.all) ||
         c.key_left + c.place_left == 0;
}

/* Adds the open entries to the histogram by the next digit of their keys, the
 * bits from `shift` on; listed: reads r->list alone. No barrier. */
template <class Keys>
static __device__ void kv_radix_keys(const Keys &x, kv_radix<Keys::WIDE> *r,
                                     const kv_cut<Keys> &c, bool listed,
                                     int shift) {
  typedef typename Keys::key key;
  key digit = (key)(((key)1 << (c.key_left - shift)) - 1);
  auto count = [&](key own) {
    if ((own & c.key_mask) == c.key)
      kv_radix_add(r, (int)(own >> shift & digit), (uint64_t)x.weight(own));
  };
  if (listed) {
    kv_radix_listed(x, r, [&](key own, uint32_t) { count(own); });
    return;
  }
  kv_radix_scan(x, [&](int, int, const typename Keys::item *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) count(x.of(own[j]));
  });
}

/* The same by the next digit of their places. */
template <class Keys>
static __device__ void kv_radix_places(const Keys &x, kv_radix<Keys::WIDE> *r,
                                       const kv_cut<Keys> &c, bool listed,
                                       int shift) {
  uint32_t digit = (1u << (c.place_left - shift)) - 1;
  auto count = [&](typename Keys::key own, uint32_t place) {
    if (kv_radix_open(c, own, place))
      kv_radix_add(r, (int)((c.last - place) >> shift & digit), 1);
  };
  if (listed) {
    kv_radix_listed(x, r, count);
    return;
  }
  kv_radix_scan(x, [&](int l, int i, const typename Keys::item *own, int each) {
    for (int j = 0; j < each; j++)
      count(x.of(own[j]), kv_radix_place(i + j, x.lanes, l));
  });
}

/* The lowest bit of the next digit, if this many bits are not known yet. */
KV_DEVICE int kv_radix_shift(int left) {
  return left > KV_DIGIT ? left - KV_DIGIT : 0;
}

/* Finds one more digit of the cut. From the last digit of the key on the open
 * entries have equal keys and count one each. */
template <class Keys>
static __device__ void kv_radix_step(const Keys &x, kv_radix<Keys::WIDE> *r,
                                     kv_cut<Keys> *c, bool listed) {
  typedef typename Keys::key key;
  bool of_key = c->key_left > 0;
  int left = of_key ? c->key_left : c->place_left, shift = kv_radix_shift(left);
  if (of_key)
    kv_radix_keys(x, r, *c, listed, shift);
  else
    kv_radix_places(x, r, *c, listed, shift);
  int b = kv_radix_find(r, &c->k, &c->all);
  uint64_t digit = ((uint64_t)1 << (left - shift)) - 1;
  if (!of_key) {
    c->place |= (uint32_t)b << shift;
    c->place_mask |= (uint32_t)digit << shift;
    c->place_left = shift;
    return;
  }
  c->key |= (key)b << shift;
  c->key_mask |= (key)digit << shift;
  c->key_left = shift;
  if (shift > 0 || !Keys::WIDE) return;
  uint64_t weight = (uint64_t)x.weight(c->key);
  c->k = (c->k + weight - 1) / weight;
  c->all /= weight;
}

/* --- flags ---------------------------------------------------------------- */

/* Writes n <= 4 flags, flag j from the low bit of byte j of `flags`; by one
 * store where they are four and aligned. A single thread's. */
KV_DEVICE void kv_radix_store(uint8_t *to, int n, uint32_t flags) {
  if (n == 4 && (uintptr_t)to % 4 == 0) {
    *(uint32_t *)to = flags;
    return;
  }
  for (int j = 0; j < n; j++) to[j] = (uint8_t)(flags >> 8 * j);
}

/* The flag of an entry whose key agrees with the known digits. An open one is
 * chosen if `in`, else listed, as far as there is room. A single thread's. */
template <class Keys>
static __device__ bool kv_radix_flag_equal(kv_radix<Keys::WIDE> *r,
                                           const kv_cut<Keys> &c, bool in,
                                           uint32_t place) {
  uint32_t own = (c.last - place) & c.place_mask;
  if (own != c.place || in) return own >= c.place;
  int at = atomicAdd(&r->listed, 1);
  if (at < KV_LISTED) r->list[at] = place;
  return false;
}

/* Flags all entries by the cut. Open ones are flagged if
 * `in`; else their flags are 0 and they go to r->list. If they are more than
 * KV_LISTED, r->listed says so and the list is not complete. Returns how many
 * are flagged. Ends with a barrier. */
template <class Keys>
static __device__ int kv_radix_flag(const Keys &x, kv_radix<Keys::WIDE> *r,
                                    const kv_cut<Keys> &c, bool in) {
  int kept = 0;
  if (kv_thread() == 0) r->listed = 0;
  __syncthreads();
  kv_radix_scan(x, [&](int l, int i, const typename Keys::item *own, int each) {
    uint32_t flags = 0;
    KV_UNROLL
    for (int j = 0; j < each; j++) {
      typename Keys::key key = x.of(own[j]) & c.key_mask;
      bool yes = key > c.key;
      if (key == c.key)
        yes = kv_radix_flag_equal(r, c, in, kv_radix_place(i + j, x.lanes, l));
      flags |= (uint32_t)yes << 8 * j;
    }
    kept += __popc(flags);
    kv_radix_store(x.flags(l) + i, each, flags);
  });
  return kv_block_sum(kept);
}

/* Flags the listed entries that the cut, which is done, chooses; returns how
 * many. Ends with a barrier. */
template <class Keys>
static __device__ int kv_radix_flag_listed(const Keys &x,
                                           const kv_radix<Keys::WIDE> *r,
                                           const kv_cut<Keys> &c) {
  int kept = 0;
  uint32_t lanes = (uint32_t)x.lanes;
  kv_radix_listed(x, r, [&](typename Keys::key own, uint32_t place) {
    if (!kv_radix_open(c, own, place) && !kv_radix_sure(c, own, place)) return;
    x.flags((int)(place % lanes))[place / lanes] = 1;
    kept++;
  });
  return kv_block_sum(kept);
}

/* --- the selection -------------------------------------------------------- */

/* The initial cut: only the weight k to be chosen is known. */
template <class Keys>
static __device__ kv_cut<Keys> kv_radix_whole(const Keys &x, uint64_t k) {
  int longest = 1;
  for (int l = 0; l < x.lanes; l++)
    longest = x.n(l) > longest ? x.n(l) : longest;
  uint32_t last = kv_radix_place(longest, x.lanes, 0) - 1;
  kv_cut<Keys> c = {0,
                    0,
                    0,
                    0,
                    8 * (int)sizeof(typename Keys::key),
                    32 - __clz((int)last),
                    k,
                    ~(uint64_t)0,
                    last};
  return c;
}

/* True if the open entries are few enough to be listed, or where weights do not
 * tell how many they are, if two digits of the key are known: they then are few
 * unless many are equal. */
template <class Keys>
static __device__ bool kv_radix_few(const kv_cut<Keys> &c) {
  if (!Keys::WIDE || c.key_left == 0) return c.all <= KV_LISTED;
  return c.last < KV_LISTED || c.key_left <= 32 - 2 * KV_DIGIT;
}

/* The scratch of a block, one for all Keys that are alike in WIDE: a kernel
 * that selects by several has no room for two. */
template <bool WIDE> KV_DEVICE kv_radix<WIDE> *kv_radix_scratch(void) {
  KV_SHARED(kv_radix<WIDE>, r, 1);
  return r;
}

/* The selection: flags(l)[i] becomes 1 for the first entries of the ranking, up
 * to and including the one at which the sum of their weights reaches k, and 0
 * for others. 1 <= k <= the sum of all weights. Returns how many are flagged.
 * Begins and ends with a barrier. About 6,000 lines of PTX, which occur once in
 * a file for any number of calls. */
template <class Keys>
static KV_APART __device__ int kv_radix_top(Keys x, uint64_t k) {
  kv_radix<Keys::WIDE> *r = kv_radix_scratch<Keys::WIDE>();
  __syncthreads();
  kv_cut<Keys> c = kv_radix_whole(x, k);
  bool flagged = false, listed = false; /* all but open ones; all open ones */
  int kept = 0;
  kv_radix_clear(r);
  for (;;) {
    kv_radix_step(x, r, &c, listed);
    if (kv_radix_done(c)) break;
    if (flagged || !kv_radix_few(c)) continue;
    kept = kv_radix_flag(x, r, c, false);
    flagged = true;
    listed = r->listed <= KV_LISTED;
  }
  if (listed) return kept + kv_radix_flag_listed(x, r, c);
  return kv_radix_flag(x, r, c, true);
}

#endif
