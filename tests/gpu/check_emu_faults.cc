/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUDA leaves undefined, the executor names: each kernel here is wrong
 * in one way, in both orders; it is called by its name in one sentence, none
 * of its threads goes past the place, and the next launch is as good as any.
 */
#include "gpu/block/async.h"
#include "gpu/block/block.cuh"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { ALL = KV_BLOCK };

static char sentence[512];
static int said_faults;
static void (*handler)(const char *); /* as the library has it */

static void note(const char *s) {
  snprintf(sentence, sizeof sentence, "%s", s);
  said_faults++;
}

/* --- right and wrong kernels -------------------------------------------- */

static __global__ void right(int64_t *sum) {
  sum[threadIdx.x] = kv_block_sum(kv_thread());
}

static void all_is_well(void) {
  int64_t sum[ALL];
  KV_LAUNCH(nullptr, right, 1, ALL, sum);
  for (int i = 0; i < ALL; i++) assert_int_equal(sum[i], ALL * (ALL - 1) / 2);
}

static __global__ void inner(int *n) { atomicAdd(n, 1); }

typedef void breaking(int *after);

static __global__ void two_barriers(int *after) {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
  atomicAdd(after, 1);
}

template <int WHO> static __global__ void left_behind(int *after) {
  if (threadIdx.x == WHO) return;
  __syncthreads();
  atomicAdd(after, 1);
}

static __global__ void barrier_and_collective(int *after) {
  if (threadIdx.x % 32 < 16)
    __syncthreads();
  else
    __syncwarp();
  atomicAdd(after, 1);
}

static __global__ void two_collectives(int *after) {
  if (threadIdx.x % 32 < 16)
    __ballot_sync(0xffffffffu, 1);
  else
    __shfl_sync(0xffffffffu, 1, 0);
  atomicAdd(after, 1);
}

static __global__ void two_masks(int *after) {
  __ballot_sync(threadIdx.x % 32 ? 0xffffffffu : 0xfffffffdu, 1);
  atomicAdd(after, 1);
}

static __global__ void strange_mask(int *after) {
  __syncwarp(0xfffffffeu << threadIdx.x % 32);
  atomicAdd(after, 1);
}

static __global__ void strange_lane(int *after) {
  if (threadIdx.x % 32 == 5) return;
  int x = __shfl_sync(0xffffffffu, 1, 5);
  atomicAdd(after, x);
}

static __global__ void too_much(int *after) {
  KV_SHARED(char, half, 30000);
  KV_SHARED(char, other, 30000);
  half[0] = other[0];
  atomicAdd(after, 1);
}

static __global__ void launcher(int *after) {
  KV_LAUNCH(nullptr, inner, 1, 32, after);
  atomicAdd(after, 1);
}

/* Copies of the last thread, wrong in one way. */
alignas(16) static char global[64];

template <int TO, int FROM> static __global__ void strange_copy(int *after) {
  KV_SHARED(kv_piece, piece, 2);
  if (threadIdx.x == ALL - 1) {
    kv_async_16((kv_piece *)((char *)piece + TO), global + FROM);
    kv_async_commit();
    kv_async_wait<0>();
  }
  __syncthreads();
  atomicAdd(after, 1);
}

static __global__ void copy_to_global(int *after) {
  kv_async_16((kv_piece *)global, global + 16);
  atomicAdd(after, 1);
}

static __global__ void copy_from_shared(int *after) {
  KV_SHARED(kv_piece, piece, 2);
  kv_async_16(piece, piece + 1);
  atomicAdd(after, 1);
}

static __global__ void copy_much(int *after) {
  KV_SHARED(kv_piece, piece, 2);
  for (int i = 0; i < 33; i++) kv_async_16(piece, global);
  atomicAdd(after, 1);
}

/* Nobody waits; a wait that leaves the group; one before the commit. */
template <int HOW> static __global__ void lost_copy(int *after) {
  KV_SHARED(kv_piece, piece, 1);
  __syncthreads();
  if (threadIdx.x != 0) return;
  kv_async_16(piece, global);
  if (HOW < 2) kv_async_commit();
  if (HOW == 1) kv_async_wait<1>();
  if (HOW == 2) kv_async_wait<0>();
  (void)after;
}

static const struct wrong {
  breaking *kernel;
  const char *name, *says;
} wrongs[] = {
    {two_barriers, "two_barriers", "a divergent barrier"},
    {left_behind<0>, "left_behind<0>", "a divergent barrier"},
    {left_behind<40>, "left_behind<40>", "a divergent barrier"},
    {left_behind<127>, "left_behind<127>", "a divergent barrier"},
    {barrier_and_collective, "barrier_and_collective", "a deadlock"},
    {two_collectives, "two_collectives", "a divergent collective"},
    {two_masks, "two_masks", "with another mask"},
    {strange_mask, "strange_mask", "not in its own mask"},
    {strange_lane, "strange_lane", "lane 5, which takes no part"},
    {too_much, "too_much", "more shared memory than a kernel has"},
    {launcher, "launcher", "launches kernel inner"},
    {strange_copy<8, 0>, "strange_copy<8, 0>", "no multiples of 16"},
    {strange_copy<0, 4>, "strange_copy<0, 4>", "no multiples of 16"},
    {copy_to_global, "copy_to_global", "other than from global to shared"},
    {copy_from_shared, "copy_from_shared", "other than from global"},
    {copy_much, "copy_much", "more than 32 copies on their way"},
    {lost_copy<0>, "lost_copy<0>", "ends with 1 copies on their way"},
    {lost_copy<1>, "lost_copy<1>", "ends with 1 copies on their way"},
    {lost_copy<2>, "lost_copy<2>", "ends with 1 copies on their way"},
};

static void breaks(const wrong *w) {
  int after = 0, before = said_faults;
  kv_emu_start(w->name, 2, ALL, w->kernel, &after);
  assert_int_equal(said_faults, before + 1);
  assert_int_equal(after, 0);
  if (!strstr(sentence, w->says) || !strstr(sentence, w->name))
    fail_msg("%s: %s", w->name, sentence);
}

TEST(faults_are_named) {
  for (int reverse = 0; reverse < 2; reverse++) {
    kv_emu_order(reverse);
    for (const wrong &w : wrongs) {
      breaks(&w);
      all_is_well();
    }
  }
  assert_non_null(strstr(kv_emu_failed(), "two_barriers"));
}

TEST(sites_are_named) {
  kv_emu_order(0);
  breaks(&wrongs[0]);
  assert_non_null(strstr(sentence, "block 0,0,0"));
  assert_non_null(strstr(sentence, "thread 0 stands at __syncthreads"));
  assert_non_null(strstr(sentence, "check_emu_faults.cc:"));
  assert_non_null(strstr(sentence, "thread 40"));
}

TEST(strange_grids_are_refused) {
  int n = 0;
  KV_LAUNCH(nullptr, inner, 1, ALL + 1, &n);
  assert_non_null(strstr(sentence, "up to 128 threads"));
  KV_LAUNCH(nullptr, inner, 1, dim3(8, 8), &n);
  assert_non_null(strstr(sentence, "one dimension"));
  KV_LAUNCH(nullptr, inner, 0, ALL, &n);
  assert_non_null(strstr(sentence, "empty"));
  assert_int_equal(n, 0);
}

/* Nobody replaced the handler: one line, and an end by SIGABRT. */
TEST(a_fault_ends_the_program) {
  char line[512] = "";
  int ends[2], status = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int after = 0;
    dup2(ends[1], 2);
    kv_emu_fault = handler;
    KV_LAUNCH(nullptr, two_barriers, 1, ALL, &after);
    _exit(0);
  }
  close(ends[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  assert_true(read(ends[0], line, sizeof line - 1) > 0);
  close(ends[0]);
  assert_non_null(strstr(line, "kvreplay: kernel two_barriers"));
  assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

int main(void) {
  handler = kv_emu_fault;
  kv_emu_fault = note;
  int failed = tests_run("emu faults", nullptr, nullptr);
  kv_emu_release();
  return failed;
}
