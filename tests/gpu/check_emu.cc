/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the executor of kernels on the CPU:
 * - threads and blocks run in the order that was asked for, lowest or highest
 *   first, and a thread that cannot go on gives way; what a right kernel
 *   computes does not depend on it;
 * - what a launch costs is counted, of the block with most of it;
 * - barriers hold; shared memory is full of 0xAA in every block, device
 *   memory when it is taken;
 * - OS threads launch at the same time; a kernel runs in the float ground of
 *   its launcher; recorded launches run when they are replayed;
 * - functions of gpu/block/block.cuh give what plain loops give.
 */
#include "gpu/block/block.cuh"
#include "gpu/emu/emu.h"
#include "ref/ground/formula.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

enum { ALL = KV_BLOCK };

/* --- order -------------------------------------------------------------- */

struct steps {
  int n, who[4 * ALL];
};

static __global__ void tell(steps *s) {
  s->who[s->n++] = (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

static __global__ void tell_twice(steps *s) {
  s->who[s->n++] = (int)threadIdx.x;
  __syncthreads();
  s->who[s->n++] = (int)threadIdx.x;
}

/* Before the first launch the environment asked for the reverse. */
TEST(environment_says_the_order) {
  static steps s;
  KV_LAUNCH(nullptr, tell, 2, 64, &s);
  assert_int_equal(s.n, 128);
  for (int i = 0; i < 128; i++) assert_int_equal(s.who[i], 127 - i);
}

TEST(threads_run_in_order) {
  for (int reverse = 0; reverse < 2; reverse++) {
    static steps once, twice;
    once.n = twice.n = 0;
    kv_emu_order(reverse);
    KV_LAUNCH(nullptr, tell, 3, 100, &once);
    KV_LAUNCH(nullptr, tell_twice, 1, ALL, &twice);
    assert_int_equal(once.n, 300);
    assert_int_equal(twice.n, 2 * ALL);
    for (int i = 0; i < 300; i++)
      assert_int_equal(once.who[i], reverse ? 299 - i : i);
    for (int i = 0; i < 2 * ALL; i++)
      assert_int_equal(twice.who[i], reverse ? ALL - 1 - i % ALL : i % ALL);
  }
}

static __global__ void name_places(unsigned *seen) {
  unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  if (threadIdx.y == 0 && threadIdx.z == 0)
    seen[b * blockDim.x + threadIdx.x] += b + 1;
}

TEST(grids_have_three_dimensions) {
  static unsigned seen[2 * 3 * 4 * 5];
  memset(seen, 0, sizeof seen);
  KV_LAUNCH(nullptr, name_places, dim3(2, 3, 4), 5, seen);
  for (unsigned i = 0; i < 2 * 3 * 4 * 5; i++)
    assert_int_equal(seen[i], i / 5 + 1);
}

/* --- what it costs -------------------------------------------------------- */

/* Block b passes 3 - b barriers; each of its threads takes b elements, and two
 * products. */
static __global__ void costs() {
  for (unsigned i = blockIdx.x; i < 3; i++) __syncthreads();
  for (unsigned i = 0; i < blockIdx.x; i++) kv_one_by_one();
  for (unsigned i = 0; i < 2; i++) KV_EMU_DONE(fmas);
}

TEST(costs_are_those_of_the_slowest_block) {
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_count was = kv_emu_counted();
    kv_emu_order(reverse);
    KV_LAUNCH(nullptr, costs, 3, ALL);
    KV_LAUNCH(nullptr, costs, 2, 32);
    kv_emu_count is = kv_emu_counted();
    assert_int_equal(is.launches - was.launches, 2);
    assert_int_equal(is.barriers - was.barriers, 3 + 3);
    assert_int_equal(is.fmas - was.fmas, 2 * ALL + 2 * 32);
    assert_int_equal(is.elements - was.elements, 2 * ALL + 32);
  }
}

/* --- barriers and shared memory ----------------------------------------- */

static __global__ void prefix_sum(const int *in, int *out) {
  KV_SHARED(int, sum, 2 * KV_BLOCK);
  int t = (int)threadIdx.x, n = (int)blockDim.x, from = 0;
  sum[t] = in[(int)blockIdx.x * n + t];
  for (int d = 1; d < n; d *= 2, from ^= 1) {
    __syncthreads();
    int x = sum[from * KV_BLOCK + t];
    if (t >= d) x += sum[from * KV_BLOCK + t - d];
    sum[(from ^ 1) * KV_BLOCK + t] = x;
  }
  __syncthreads();
  out[(int)blockIdx.x * n + t] = sum[from * KV_BLOCK + t];
}

static void sums_by_barriers(int n) {
  static int in[3 * ALL], out[3 * ALL];
  for (int i = 0; i < 3 * n; i++) {
    in[i] = (int)(kv_mix((uint64_t)i) % 1000);
    out[i] = -1;
  }
  KV_LAUNCH(nullptr, prefix_sum, 3, n, in, out);
  for (int i = 0, sum = 0; i < 3 * n; i++) {
    sum = in[i] + (i % n ? sum : 0);
    assert_int_equal(out[i], sum);
  }
}

TEST(barriers_hold) {
  static const int sizes[] = {1, 2, 31, 32, 33, 127, 128};
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    for (int n : sizes) sums_by_barriers(n);
  }
}

/* Counts bytes that are not 0xAA, then writes over them. */
template <int N> static __device__ int dirty(void) {
  KV_SHARED(unsigned char, bytes, N);
  int bad = 0;
  for (int i = 0; i < N; i++) bad += bytes[i] != 0xaa;
  bad += sizeof bytes != (size_t)N;
  __syncthreads();
  for (int i = 0; i < N; i++) bytes[i] = (unsigned char)N;
  __syncthreads();
  for (int i = 0; i < N; i++) bad += bytes[i] != (unsigned char)N;
  return bad;
}

static __global__ void look(int *bad) {
  int found = dirty<1>() + dirty<64>() + dirty<1000>();
  KV_SHARED(uint64_t, words, 3);
  found += words[2] != 0xaaaaaaaaaaaaaaaau || (uintptr_t)words % 16 != 0;
  __syncthreads();
  words[threadIdx.x % 3] = 5;
  atomicAdd(bad, found);
}

TEST(shared_memory_is_fresh) {
  int bad = 0;
  for (int i = 0; i < 2; i++) KV_LAUNCH(nullptr, look, 3, ALL, &bad);
  assert_int_equal(bad, 0);
}

TEST(device_memory_is_full_of_aa) {
  for (size_t n = 0; n < 1000; n = n * 2 + 1) {
    unsigned char *p = (unsigned char *)kv_emu_take(n);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 256, 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0xaa);
    kv_emu_give(p);
  }
  kv_emu_give(nullptr);
  assert_null(kv_emu_take(SIZE_MAX));
}

/* --- OS threads, float ground, records ---------------------------------- */

struct crew {
  int seed, wrong;
};

static __global__ void mill(int seed, int rounds, int *out) {
  KV_SHARED(int, row, KV_BLOCK);
  int t = (int)threadIdx.x;
  int x = seed + t;
  for (int r = 0; r < rounds; r++) {
    row[t] = x;
    __syncthreads();
    x = (int)((unsigned)row[(t + 1) % KV_BLOCK] * 5u) ^ r;
    x += __shfl_xor_sync(0xffffffffu, x & 15, 3);
    __syncthreads();
  }
  out[t] = x;
}

static void mill_plain(int seed, int rounds, int *out) {
  int x[ALL], y[ALL];
  for (int t = 0; t < ALL; t++) x[t] = seed + t;
  for (int r = 0; r < rounds; r++) {
    for (int t = 0; t < ALL; t++)
      y[t] = (int)((unsigned)x[(t + 1) % ALL] * 5u) ^ r;
    for (int t = 0; t < ALL; t++) x[t] = y[t] + (y[t ^ 3] & 15);
  }
  memcpy(out, x, sizeof x);
}

static void *work(void *arg) {
  crew *c = (crew *)arg;
  for (int i = 0; i < 20; i++) {
    int got[ALL], want[ALL];
    mill_plain(c->seed + i, 30, want);
    KV_LAUNCH(nullptr, mill, 1, ALL, c->seed + i, 30, got);
    c->wrong += memcmp(got, want, sizeof got) != 0;
    if (i == 10) kv_emu_release();
  }
  return nullptr;
}

TEST(os_threads_launch_at_once) {
  enum { CREW = 3 };
  for (int round = 0; round < 3; round++) {
    pthread_t id[CREW];
    crew c[CREW];
    for (int i = 0; i < CREW; i++) {
      c[i] = {i * 1000 + round, 0};
      assert_int_equal(pthread_create(&id[i], nullptr, work, &c[i]), 0);
    }
    for (int i = 0; i < CREW; i++) {
      pthread_join(id[i], nullptr);
      assert_int_equal(c[i].wrong, 0);
    }
  }
}

static __global__ void third(const volatile float *one, float *out) {
  int t = (int)threadIdx.x;
  volatile float before = *one / 3.0f;
  __syncthreads();
  float after = *one / 3.0f;
  out[t] = before == after ? before : -1.0f;
}

/* Each thread rounds its own way, past a barrier. */
static __global__ void round_alone(const int *ways, const volatile float *one,
                                   int *after) {
  int mine = ways[threadIdx.x % 3];
  fesetround(mine);
  volatile float third = *one / 3.0f; /* not after the barrier */
  __syncthreads();
  after[threadIdx.x] = fegetround() == mine && *one / 3.0f == third;
  __syncthreads();
  fesetround(FE_TONEAREST);
}

TEST(ground_is_a_threads_own) {
  static const int ways[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  volatile float one = 1.0f;
  int after[ALL];
  KV_LAUNCH(nullptr, round_alone, 1, ALL, ways, &one, after);
  assert_int_equal(fegetround(), FE_TONEAREST);
  for (int i = 0; i < ALL; i++) assert_int_equal(after[i], 1);
}

TEST(ground_is_the_launchers) {
  volatile float one = 1.0f;
  static const int ways[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD,
                             FE_TONEAREST};
  for (int way : ways) {
    float out[ALL];
    assert_int_equal(fesetround(way), 0);
    float want = one / 3.0f;
    KV_LAUNCH(nullptr, third, 1, ALL, &one, out);
    int still = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(still, way);
    for (int i = 0; i < ALL; i++) assert_true(out[i] == want);
  }
}

static __global__ void append_to(steps *s, int what) {
  if (threadIdx.x == 0) s->who[s->n++] = what;
}

TEST(records_are_replayed) {
  static steps s;
  s.n = 0;
  kv_emu_record();
  assert_null(kv_emu_recorded());
  kv_emu_record();
  for (int i = 0; i < 3; i++) KV_LAUNCH(nullptr, append_to, 1, 33, &s, i);
  kv_emu_list *list = kv_emu_recorded();
  assert_non_null(list);
  assert_int_equal(s.n, 0);
  kv_emu_replay(list);
  kv_emu_replay(list);
  kv_emu_forget(list);
  kv_emu_forget(nullptr);
  assert_int_equal(s.n, 6);
  for (int i = 0; i < 6; i++) assert_int_equal(s.who[i], i % 3);
}

/* --- gpu/block/block.cuh -------------------------------------------------- */

struct together {
  int64_t sum[ALL];
  uint64_t max[ALL];
  int before[ALL], total[ALL];
};

static __global__ void go_together(const uint64_t *x, together *out) {
  int t = kv_thread(), total = -1;
  for (int again = 0; again < 2; again++) {
    out->sum[t] = kv_block_sum((int64_t)x[t]);
    out->max[t] = kv_block_max(x[t]);
    out->before[t] = kv_block_rank(x[t] % 3 == 0, &total);
    out->total[t] = total;
  }
}

TEST(block_functions_are_plain_loops) {
  for (uint64_t trial = 0; trial < 40; trial++) {
    static uint64_t x[ALL];
    static together out;
    uint64_t max = 0;
    int64_t sum = 0;
    int total = 0, before = 0;
    for (uint64_t i = 0; i < ALL; i++) {
      x[i] = (uint64_t)((int64_t)kv_mix(trial * ALL + i) >> (8 + trial));
      sum += (int64_t)x[i];
      max = x[i] > max ? x[i] : max;
      total += x[i] % 3 == 0;
    }
    kv_emu_order((int)trial & 1);
    KV_LAUNCH(nullptr, go_together, 1, ALL, x, &out);
    for (int i = 0; i < ALL; i++) {
      assert_true(out.sum[i] == sum && out.max[i] == max);
      assert_int_equal(out.before[i], before);
      assert_int_equal(out.total[i], total);
      before += x[i] % 3 == 0;
    }
  }
}

int main(void) {
  setenv("KVREPLAY_EMU_ORDER", "reverse", 1);
  int failed = tests_run("emu", nullptr, nullptr);
  kv_emu_release();
  return failed;
}
