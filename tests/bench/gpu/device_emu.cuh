/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor in place of a device (KV_BENCH_CHECK_ONLY): the checks run on
 * it, and there is no clock but the host's.
 */
#ifndef KV_TESTS_BENCH_DEVICE_EMU_CUH
#define KV_TESTS_BENCH_DEVICE_EMU_CUH

#include "tests/bench/gpu/device_copy.cuh"
#include "tests/support/backend/gpumeter.h"

#include <time.h>

static const bool bench_times = false;

static const kv_device *bench_device(const char **why) {
  *why = "the executor was not built";
  return kv_device_emu();
}

static double bench_seconds(bench *, const lap *) {
  bench_fail("the executor has no clock");
}

static void copy_run(void *self, void *) {
  const copying *c = (const copying *)self;
  c->b->dev->put(c->to, c->from, c->n * sizeof *c->to);
}

/* The host's clock: the executor has done all work when a call returns. */
static double replay_at[GPUMETER_MARKS];

static void replay_mark(int i) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  replay_at[i] = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double replay_seconds(int i, int j) {
  return replay_at[j] - replay_at[i];
}

static void bench_header(bench *b) {
  printf("device    %s\n", b->dev->title());
}

#endif
