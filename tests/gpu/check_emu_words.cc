/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's words as the executor says them: shuffles, votes, reductions and
 * atomics give what plain loops give, in both orders, for whole and for begun
 * warps, for parts of a warp and for lanes that have left; no atomic takes a
 * float. A copy to shared memory is there after the wait for its group and not
 * before.
 */
#include "gpu/block/async.h"
#include "gpu/block/warp.h"
#include "ref/ground/formula.h"

#include "tests/support/test.h"

enum { ALL = KV_BLOCK };

template <class T> struct exchanged { T same[ALL], mirrored[ALL], lower[ALL]; };

template <class T>
static __global__ void exchange(const T *in, exchanged<T> *out, int by) {
  int t = (int)threadIdx.x;
  T x = in[t];
  out->same[t] = __shfl_sync(0xffffffffu, x, by);
  out->mirrored[t] = __shfl_xor_sync(0xffffffffu, x, by);
  out->lower[t] = __shfl_up_sync(0xffffffffu, x, by);
}

template <class T> static void shuffles_of(void) {
  static T in[ALL];
  static exchanged<T> out;
  for (int i = 0; i < ALL; i++) in[i] = (T)(kv_mix((uint64_t)i) >> 33);
  for (int by = 0; by < 32; by++) {
    KV_LAUNCH(nullptr, exchange<T>, 1, ALL, in, &out, by);
    for (int i = 0; i < ALL; i++) {
      int lane = i % 32, warp = i - lane;
      assert_true(out.same[i] == in[warp + by]);
      assert_true(out.mirrored[i] == in[warp + (lane ^ by)]);
      assert_true(out.lower[i] == in[lane < by ? i : i - by]);
    }
  }
}

static __global__ void reduce(const uint64_t *in, uint32_t *most, uint32_t *sum,
                              uint64_t *wide, int64_t *all) {
  int t = (int)threadIdx.x;
  most[t] = kv_warp_max((uint32_t)in[t]);
  sum[t] = kv_warp_sum((uint32_t)in[t]);
  wide[t] = kv_warp_max(in[t]);
  all[t] = kv_warp_sum((int64_t)in[t]);
}

/* Of numbers of 64 bits, and of some whose upper halves are equal. */
TEST(warps_reduce) {
  static uint64_t in[ALL], wide[ALL];
  static uint32_t most[ALL], sum[ALL];
  static int64_t all[ALL];
  for (int bits = 31; bits <= 64; bits += 11) {
    for (int i = 0; i < ALL; i++)
      in[i] = kv_mix((uint64_t)i) >> (64 - bits) | (uint64_t)1 << 33;
    KV_LAUNCH(nullptr, reduce, 1, ALL, in, most, sum, wide, all);
    for (int i = 0; i < ALL; i++) {
      uint64_t top = 0, total = 0;
      uint32_t top_low = 0;
      for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
        top = in[j] > top ? in[j] : top;
        top_low = (uint32_t)in[j] > top_low ? (uint32_t)in[j] : top_low;
        total += in[j];
      }
      assert_true(most[i] == top_low && wide[i] == top);
      assert_true(sum[i] == (uint32_t)total && all[i] == (int64_t)total);
    }
  }
}

TEST(shuffles_carry) {
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    shuffles_of<int>();
    shuffles_of<uint32_t>();
    shuffles_of<float>();
    shuffles_of<int64_t>();
    shuffles_of<uint64_t>();
    shuffles_of<double>();
  }
}

struct votes {
  uint32_t said[ALL];
  int any[ALL];
};

/* The lanes below `few` of each warp vote among themselves. */
static __global__ void vote(const uint8_t *yes, int few, votes *v) {
  int t = (int)threadIdx.x, lane = t % 32;
  uint32_t low = (uint32_t)((1ull << few) - 1ull);
  uint32_t mask = lane < few ? low : ~low;
  v->said[t] = __ballot_sync(mask, yes[t] != 0);
  v->any[t] = __any_sync(mask, yes[t]);
  __syncwarp(mask);
  __syncwarp();
}

static void votes_are_counted(int n, int few, uint64_t seed) {
  static uint8_t yes[ALL];
  static votes v;
  for (int i = 0; i < n; i++)
    yes[i] = seed < 2 ? (uint8_t)seed : kv_mix(seed + (uint64_t)i) % 4 == 0;
  KV_LAUNCH(nullptr, vote, 1, (unsigned)n, yes, few, &v);
  for (int i = 0; i < n; i++) {
    uint32_t said = 0;
    for (int j = i / 32 * 32; j < n && j < i / 32 * 32 + 32; j++) {
      if ((j % 32 < few) != (i % 32 < few)) continue;
      said |= (uint32_t)yes[j] << j % 32;
    }
    assert_int_equal(v.said[i], said);
    assert_int_equal(v.any[i], said != 0);
  }
}

TEST(votes_count) {
  static const int sizes[] = {1, 40, 128};
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    for (int n : sizes)
      for (int few = 1; few <= 32; few += 5)
        for (uint64_t seed = 0; seed < 6; seed++)
          votes_are_counted(n, few, seed);
  }
}

static __global__ void some_leave(const int *stay, uint32_t *said) {
  int t = (int)threadIdx.x;
  if (!stay[t]) return;
  said[t] = __ballot_sync(0xffffffffu, 1);
}

TEST(lanes_may_leave) {
  static int stay[ALL];
  static uint32_t said[ALL];
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    for (int i = 0; i < ALL; i++) stay[i] = i < 96 && i % 3 == 1;
    memset(said, 0, sizeof said);
    KV_LAUNCH(nullptr, some_leave, 1, ALL, stay, said);
    for (int i = 0; i < ALL; i++) {
      uint32_t want = 0;
      for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++)
        want |= (uint32_t)stay[j] << j % 32;
      assert_int_equal(said[i], stay[i] ? want : 0);
    }
  }
}

template <class T>
concept adds = requires(T *p, T x) {
  atomicAdd(p, x);
};
static_assert(adds<int> && adds<unsigned> && adds<unsigned long long>);
static_assert(!adds<float> && !adds<double>, "no sum of floats");

struct tallies {
  int sum, least, most;
  unsigned bits;
  unsigned long long wide, highest;
  long long lowest;
};

static __global__ void tally(tallies *a) {
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), x = i * 37 % 101 - 50;
  atomicAdd(&a->sum, x);
  atomicMin(&a->least, x);
  atomicMax(&a->most, x);
  atomicOr(&a->bits, 1u << i % 20);
  atomicAdd(&a->wide, 1ull << 33);
  atomicMax(&a->highest, (unsigned long long)i << 40);
  atomicMin(&a->lowest, -((long long)i << 40));
}

TEST(atomics_add_up) {
  tallies a = {0, 1000, -1000, 0, 0, 0, 0};
  int sum = 0;
  for (int i = 0; i < 3 * ALL; i++) sum += i * 37 % 101 - 50;
  kv_emu_order(0);
  KV_LAUNCH(nullptr, tally, 3, ALL, &a);
  assert_int_equal(a.sum, sum);
  assert_int_equal(a.least, -50);
  assert_int_equal(a.most, 50);
  assert_int_equal(a.bits, 0xfffff);
  assert_true(a.wide == 3ull * ALL << 33);
  assert_true(a.highest == (3ull * ALL - 1) << 40);
  assert_true(a.lowest == -((3ll * ALL - 1) * (1ll << 40)));
}

TEST(integers_are_counted) {
  assert_int_equal(__popc(0), 0);
  assert_int_equal(__popc(0xf00f0001u), 9);
  assert_int_equal(__clz(0), 32);
  assert_int_equal(__clz(1), 31);
  assert_int_equal(__clz(-1), 0);
  assert_int_equal(__ffs(0), 0);
  assert_int_equal(__ffs(8), 4);
}

/* --- copies on their way ------------------------------------------------ */

constexpr int GROUPS = 3, SEEN = 8;

/* Every thread copies GROUPS pieces, a group each but for an empty one in
 * between, and looks what it has after each wait; in the end at those of the
 * thread after it. */
static __global__ void copy_late(const kv_piece *from, uint32_t *seen) {
  KV_SHARED(kv_piece, piece, GROUPS * ALL);
  int t = (int)threadIdx.x, at = 0;
  seen += t * SEEN * GROUPS;
  auto see = [&](int u) {
    for (int g = 0; g < GROUPS; g++)
      seen[at++] = piece[g * ALL + u].word[g % 4];
  };
  for (int g = 0; g < GROUPS; g++) piece[g * ALL + t].word[g % 4] = 1;
  for (int g = 0; g < GROUPS; g++) {
    kv_async_16(&piece[g * ALL + t], &from[g * ALL + t]);
    kv_async_commit();
    if (g == 0) kv_async_commit();
  }
  see(t);
  kv_async_wait<4>(); /* all four groups may be missing */
  see(t);
  kv_async_wait<3>();
  see(t);
  kv_async_wait<2>(); /* the empty one */
  see(t);
  kv_async_wait<1>();
  see(t);
  kv_async_16(&piece[t], &from[2 * ALL + t]); /* in no group yet */
  kv_async_wait<0>();
  see(t);
  kv_async_commit();
  kv_async_wait<0>();
  see(t);
  __syncthreads();
  see((t + 1) % (int)blockDim.x);
}

TEST(copies_arrive_at_the_wait) {
  /* How many of the groups are there at each look. */
  static const int there[SEEN] = {0, 0, 1, 1, 2, 3, 3, 3};
  static uint32_t seen[ALL * SEEN * GROUPS];
  alignas(16) static kv_piece from[GROUPS * ALL];
  for (uint32_t i = 0; i < GROUPS * ALL; i++)
    for (uint32_t w = 0; w < 4; w++) from[i].word[w] = i * 8 + w;
  for (int reverse = 0; reverse < 2; reverse++) {
    uint64_t before = kv_emu_copied();
    kv_emu_order(reverse);
    KV_LAUNCH(nullptr, copy_late, 1, ALL, from, seen);
    assert_true(kv_emu_copied() - before == (GROUPS + 1) * ALL);
    for (int t = 0; t < ALL; t++)
      for (int look = 0; look < SEEN; look++)
        for (int g = 0; g < GROUPS; g++) {
          int u = look == SEEN - 1 ? (t + 1) % ALL : t;
          uint32_t want = from[g * ALL + u].word[g % 4];
          if (g >= there[look]) want = 0xaaaaaaaau;
          if (g == 0 && look == 5) want = 0xaaaaaaaau;
          if (g == 0 && look > 5) want = from[2 * ALL + u].word[0];
          assert_int_equal(seen[(t * SEEN + look) * GROUPS + g], want);
        }
  }
}

/* Any length at any place: what is not there is 0. */
static __global__ void copy_some(const char *from, int n, kv_piece *out) {
  KV_SHARED(kv_piece, piece, ALL);
  int t = (int)threadIdx.x;
  kv_async_piece(&piece[t], from + 2 * t, n);
  kv_async_commit();
  kv_async_wait<0>();
  out[t] = piece[t];
}

TEST(pieces_end_in_zeros) {
  alignas(16) static char from[3 * ALL];
  static kv_piece out[ALL];
  for (int i = 0; i < 3 * ALL; i++) from[i] = (char)(kv_mix((uint64_t)i) | 1);
  for (int n = -2; n <= 20; n += 2) {
    KV_LAUNCH(nullptr, copy_some, 1, ALL, from, n, out);
    for (int i = 0; i < 16 * ALL; i++)
      assert_int_equal(((const char *)out)[i],
                       i % 16 < n ? from[i / 16 * 2 + i % 16] : 0);
  }
}

int main(void) {
  int failed = tests_run("emu words", nullptr, nullptr);
  kv_emu_release();
  return failed;
}
