/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor in place of a device (KV_BENCH_CHECK_ONLY): the checks run on
 * it, and there is no clock.
 */
#ifndef KV_TESTS_BENCH_DEVICE_EMU_CUH
#define KV_TESTS_BENCH_DEVICE_EMU_CUH

#include "tests/bench/gpu/device_copy.cuh"

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

static void bench_header(bench *b) {
  printf("device    %s\n", b->dev->title());
}

#endif
