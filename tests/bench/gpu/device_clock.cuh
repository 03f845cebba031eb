/* SPDX-License-Identifier: Apache-2.0
 *
 * What only a device has: its clock, a copy by its driver, and its name. Times
 * are the device's own, between two events in the stream, so they include no
 * work of the host while the host is ahead: the part of a lap before the first
 * event keeps the device busy meanwhile.
 */
#ifndef KV_TESTS_BENCH_DEVICE_CLOCK_CUH
#define KV_TESTS_BENCH_DEVICE_CLOCK_CUH

#include "tests/bench/gpu/device_copy.cuh"
#include "tests/support/backend/gpumeter.h"

static const bool bench_times = true;

/* gpu/module/cuda.cu */
extern "C" const kv_device *kv_device_module(const char **why);

static const kv_device *bench_device(const char **why) {
  static const kv_device *device;
  if (!device) device = kv_device_module(why);
  return device;
}

/* In place of gpu/host/module.c and of the executor: a replay runs on the
 * kernels that are linked in, and nothing is loaded. */
extern "C" const kv_device *kv_device_cuda(const char **why) {
  return bench_device(why);
}
extern "C" const kv_device *kv_device_emu(void) { return nullptr; }

static void cuda_fine(cudaError_t rc, const char *doing) {
  if (rc != cudaSuccess) bench_fail("%s: %s", doing, cudaGetErrorString(rc));
}

static void copy_run(void *self, void *stream) {
  const copying *c = (const copying *)self;
  cuda_fine(cudaMemcpyAsync(c->to, c->from, c->n * sizeof *c->to,
                            cudaMemcpyDeviceToDevice, (cudaStream_t)stream),
            "copying");
}

/* --- laps --------------------------------------------------------------- */

static void *keep_run(bench *b, const lap *what, kv_gpu_sequence *run) {
  if (what->direct) return nullptr;
  void *recorded = b->dev->record(run, what->self);
  bench_fine(b);
  return recorded;
}

static void go(bench *b, const lap *what, kv_gpu_sequence *run,
               void *recorded) {
  if (recorded)
    b->dev->replay(recorded);
  else
    run(what->self, b->dev->stream());
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double bench_seconds(bench *b, const lap *what) {
  cudaStream_t stream = (cudaStream_t)b->dev->stream();
  cudaEvent_t from, to;
  double each[REPEATS];
  void *before = keep_run(b, what, what->before);
  void *timed = keep_run(b, what, what->timed);
  cuda_fine(cudaEventCreate(&from), "an event");
  cuda_fine(cudaEventCreate(&to), "an event");
  for (int i = -WARM_UPS; i < REPEATS; i++) {
    float ms = 0;
    go(b, what, what->before, before);
    cuda_fine(cudaEventRecord(from, stream), "an event");
    go(b, what, what->timed, timed);
    cuda_fine(cudaEventRecord(to, stream), "an event");
    cuda_fine(cudaStreamSynchronize(stream), "waiting");
    cuda_fine(cudaEventElapsedTime(&ms, from, to), "reading the clock");
    if (i >= 0) each[i] = ms * 1e-3;
  }
  bench_fine(b);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  b->dev->forget(before);
  b->dev->forget(timed);
  qsort(each, REPEATS, sizeof *each, ascending);
  return each[REPEATS / 2];
}

/* --- marks of a replay ---------------------------------------------------- */

static cudaEvent_t replay_event[GPUMETER_MARKS];

static void replay_mark(int i) {
  cudaEvent_t *e = &replay_event[i];
  if (!*e) cuda_fine(cudaEventCreate(e), "an event");
  const char *why;
  cudaStream_t stream = (cudaStream_t)bench_device(&why)->stream();
  cuda_fine(cudaEventRecord(*e, stream), "an event");
}

static double replay_seconds(int i, int j) {
  float ms = 0;
  cuda_fine(cudaEventSynchronize(replay_event[j]), "waiting");
  cuda_fine(cudaEventElapsedTime(&ms, replay_event[i], replay_event[j]),
            "reading the clock");
  return ms * 1e-3;
}

/* --- what it is --------------------------------------------------------- */

static int cuda_number(cudaDeviceAttr which) {
  int x = 0;
  cuda_fine(cudaDeviceGetAttribute(&x, which, 0), "asking the device");
  return x;
}

/* A text of one line, or "not said": the runtime does not know the driver's
 * release. */
static void driver_release(size_t n, char *to) {
  FILE *f = fopen("/proc/driver/nvidia/version", "r");
  if (!f || !fgets(to, (int)n, f)) snprintf(to, n, "not said");
  to[strcspn(to, "\n")] = 0;
  if (f) fclose(f);
}

static void bench_header(bench *b) {
  char driver[256];
  int knows = 0, runtime = 0;
  cudaDeviceProp of;
  cuda_fine(cudaGetDeviceProperties(&of, 0), "asking the device");
  cuda_fine(cudaDriverGetVersion(&knows), "asking the driver");
  cuda_fine(cudaRuntimeGetVersion(&runtime), "asking the runtime");
  driver_release(sizeof driver, driver);
  b->l2 = (size_t)cuda_number(cudaDevAttrL2CacheSize);
  b->sms = of.multiProcessorCount;
  b->clock = 1e3 * cuda_number(cudaDevAttrClockRate);
  printf(
      "device    %s (sm_%d%d), %.1f GiB\n"
      "driver    %s, for CUDA %d.%d\n"
      "runtime   %d.%d\n"
      "SMs       %d\n"
      "clock     %d MHz at most, memory %d MHz\n"
      "L2        %.1f MiB\n",
      of.name, of.major, of.minor, (double)of.totalGlobalMem * 0x1p-30, driver,
      knows / 1000, knows % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
      of.multiProcessorCount, cuda_number(cudaDevAttrClockRate) / 1000,
      cuda_number(cudaDevAttrMemoryClockRate) / 1000, (double)b->l2 * 0x1p-20);
}

#endif
