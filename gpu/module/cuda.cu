/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA module: kv_device on the CUDA runtime, with one stream on the first
 * visible device (CUDA_VISIBLE_DEVICES chooses it). Opened once, by one thread.
 * Every call is checked; the first failure is kept as a sentence, and after it
 * nothing is started. That there was no memory is no failure: the caller gives
 * back what it has, and the next one goes on.
 *
 * Memory comes from the runtime's pool, which keeps what was given back: a
 * store takes hundreds of arrays, and each would cost a call of the driver.
 */
#include "gpu/block/launch.h"
#include "gpu/module/kernels.h"
#include "gpu/module/no_device.cuh"
#include "gpu/shared/device.h"

#include <stdio.h>
#include <string.h>

static cudaStream_t the_stream;
static char the_title[512], the_failure[1024], the_refusal[1024];
static bool broken, pooled;

/* cudaErrorContained, which toolkits before 12.8 do not name. */
static const cudaError_t contained = (cudaError_t)226;

/* Advice for failures whose text from the runtime does not say what to do. */
static const struct {
  cudaError_t code;
  const char *what;
} meanings[] = {
    {cudaErrorMemoryAllocation, "out of device memory"},
    {cudaErrorNoKernelImageForDevice,
     "this build has no code for the device: configure with its "
     "architecture in --with-cuda-arch"},
    {cudaErrorDevicesUnavailable,
     "the device is busy or in exclusive use: try again later"},
    {cudaErrorECCUncorrectable,
     "the device was lost: its memory has an error that cannot be corrected"},
    {cudaErrorHardwareStackError, "the device was lost: hardware stack error"},
    {cudaErrorLaunchTimeout,
     "the device was lost: a kernel ran longer than this machine allows"},
    {cudaErrorLaunchFailure, "the device was lost: a kernel failed"},
    {contained, "the device was lost: a memory error was contained"},
    {cudaErrorUnknown, "the device was lost: the driver gives no reason"},
    {cudaErrorIllegalAddress,
     "a kernel touched memory that is not its own, which is a fault of "
     "kvreplay: run compute-sanitizer"},
    {cudaErrorAssert,
     "a promise that a kernel relies on was broken, which is a fault of "
     "kvreplay: the line above names it"},
};

static const char *meaning(cudaError_t code) {
  for (const auto &m : meanings)
    if (m.code == code) return m.what;
  return cudaGetErrorString(code);
}

/* Checks a call and keeps the first failure. True: it succeeded. */
static bool fine(cudaError_t code, const char *doing, size_t bytes) {
  if (code == cudaSuccess) return !broken;
  if (broken) return false;
  broken = true;
  char size[64] = "";
  if (bytes) snprintf(size, sizeof size, " %zu bytes", bytes);
  snprintf(the_failure, sizeof the_failure, "CUDA: %s%s: %s (%s)", doing, size,
           meaning(code), cudaGetErrorName(code));
  return false;
}

/* --- memory --------------------------------------------------------------- */

static void clear(void *p, size_t n) {
  if (broken || !n) return;
  fine(cudaMemsetAsync(p, 0, n, the_stream), "clearing", n);
}

/* No memory of a kind; forgets the runtime's error, which does not last. */
static void *refused(const char *kind, size_t n) {
  size_t left = 0, all = 0;
  cudaGetLastError();
  cudaMemGetInfo(&left, &all);
  snprintf(the_refusal, sizeof the_refusal,
           "CUDA: out of %s: asked for %zu bytes, and %zu of the device's %zu "
           "are free on %s; replay fewer tokens or methods at once, or use a "
           "larger device",
           kind, n, left, all, the_title);
  return nullptr;
}

static void *take(size_t n) {
  void *p = nullptr;
  if (broken) return nullptr;
  n = n ? n : 1;
  cudaError_t rc =
      pooled ? cudaMallocAsync(&p, n, the_stream) : cudaMalloc(&p, n);
  if (rc == cudaErrorMemoryAllocation) return refused("device memory", n);
  if (fine(rc, "taking", n)) clear(p, n);
  return broken ? nullptr : p;
}

/* Result of freeing, which is done even after a failure; errors of a lost
 * device are ignored. */
static void given(cudaError_t code) {
  if (broken)
    cudaGetLastError();
  else
    fine(code, "giving memory back", 0);
}

static void give(void *p) {
  if (p) given(pooled ? cudaFreeAsync(p, the_stream) : cudaFree(p));
}

static void *pin(size_t n) {
  void *p = nullptr;
  if (broken) return nullptr;
  n = n ? n : 1;
  cudaError_t rc = cudaMallocHost(&p, n);
  if (rc == cudaErrorMemoryAllocation) return refused("page-locked memory", n);
  fine(rc, "taking page-locked memory of", n);
  return broken ? nullptr : p;
}

static void unpin(void *p) {
  if (p) given(cudaFreeHost(p));
}

static const char *why_none() { return the_refusal; }

/* Waits for the copy, because `from` may change once the call returns: not
 * every system stages pageable memory first. */
static void put(void *to, const void *from, size_t n) {
  if (broken || !n) return;
  if (fine(cudaMemcpyAsync(to, from, n, cudaMemcpyHostToDevice, the_stream),
           "sending", n))
    fine(cudaStreamSynchronize(the_stream), "sending", n);
}

static void get(void *to, const void *from, size_t n) {
  if (broken || !n) return;
  if (fine(cudaGetLastError(), "starting a kernel", 0) &&
      fine(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, the_stream),
           "reading", n))
    fine(cudaStreamSynchronize(the_stream), "waiting for", n);
}

static void fetch(void *to, const void *from, size_t n) {
  if (broken || !n) return;
  fine(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, the_stream),
       "reading", n);
}

/* Errors of kernels are reported here, or by put or get. */
static void wait() {
  if (!broken && fine(cudaGetLastError(), "starting a kernel", 0))
    fine(cudaStreamSynchronize(the_stream), "waiting for the device", 0);
}

static const char *failed() {
  if (!broken) fine(cudaGetLastError(), "starting a kernel", 0);
  return broken ? the_failure : nullptr;
}

/* --- work ----------------------------------------------------------------- */

/* Runs start unless something has failed, and checks that it was accepted. */
template <class F, class... A>
static void started(const char *what, F *start, A... args) {
  if (broken) return;
  start(args...);
  fine(cudaGetLastError(), what, 0);
}

static void tell(void *stream, const kv_gpu_layer *l,
                 const kv_gpu_clock *clock) {
  started("starting a step", kv_gpu_start_tell, stream, l, clock);
}

static void queries(void *stream, const kv_gpu_layer *l, int rows) {
  started("starting queries", kv_gpu_start_queries, stream, l, rows);
}

static void append(void *stream, const kv_gpu_layer *l, int count) {
  started("starting append", kv_gpu_start_append, stream, l, count);
}

static void logits(void *stream, const kv_gpu_layer *l, int rows, int masked) {
  started("starting logits", kv_gpu_start_logits, stream, l, rows, masked);
}

static void name_views(void *stream, const kv_gpu_layer *l, int masked) {
  started("starting views", kv_gpu_start_name_views, stream, l, masked);
}

static void attend(void *stream, const kv_gpu_layer *l, int masked) {
  started("starting attention", kv_gpu_start_attend, stream, l, masked);
}

static void materialise(void *stream, const kv_gpu_layer *l) {
  started("starting materialisation", kv_gpu_start_materialise, stream, l);
}

static void evidence(void *stream, const kv_gpu_layer *l, int rows) {
  started("starting evidence", kv_gpu_start_evidence, stream, l, rows);
}

static void report(void *stream, const kv_gpu_layer *l, int stage, int first) {
  started("starting a report", kv_gpu_start_report, stream, l, stage, first);
}

static void window(void *stream, const kv_gpu_layer *l, int stage,
                   uint64_t from) {
  started("starting a report", kv_gpu_start_window, stream, l, stage, from);
}

static void count(void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p,
                  int when) {
  started("starting a count of pages", kv_gpu_start_count, stream, l, p, when);
}

static void compact(void *stream, const kv_gpu_pages *p, int n) {
  started("starting compaction", kv_gpu_start_compact, stream, p, n);
}

static void attend_paged(void *stream, const kv_gpu_layer *l,
                         const kv_gpu_paged *p) {
  started("starting attention over pages", kv_gpu_start_paged, stream, l, p);
}

static void regular(void *stream, const kv_gpu_layer *l,
                    const kv_gpu_regular *r, int act) {
  started("starting regular indices", kv_gpu_start_regular, stream, l, r, act);
}

static void rebuilt(void *stream, const kv_gpu_layer *l,
                    const kv_gpu_rebuilt *r, int act) {
  started("starting latent vectors", kv_gpu_start_rebuilt, stream, l, r, act);
}

/* --- recorded sequences --------------------------------------------------- */

/* Capture mode is relaxed: one thread uses the device, and the first start of a
 * kernel may still have to load its code. */
static cudaGraph_t captured(kv_gpu_sequence *run, void *self) {
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (!fine(cudaStreamBeginCapture(the_stream, mode), "recording", 0))
    return nullptr;
  run(self, the_stream);
  cudaError_t rc = cudaStreamEndCapture(the_stream, &graph);
  if (fine(rc, "recording", 0)) return graph;
  if (graph) cudaGraphDestroy(graph);
  return nullptr;
}

static void *record(kv_gpu_sequence *run, void *self) {
  cudaGraphExec_t recorded = nullptr;
  cudaGraph_t graph = broken ? nullptr : captured(run, self);
  if (!graph) return nullptr;
  fine(cudaGraphInstantiateWithFlags(&recorded, graph, 0), "recording", 0);
  fine(cudaGraphDestroy(graph), "recording", 0);
  return recorded;
}

static void replay(void *recorded) {
  if (!broken)
    fine(cudaGraphLaunch((cudaGraphExec_t)recorded, the_stream),
         "starting recorded kernels", 0);
}

static void forget(void *recorded) {
  if (recorded) given(cudaGraphExecDestroy((cudaGraphExec_t)recorded));
}

/* --- the table ------------------------------------------------------------ */

static const char *title() { return the_title; }
static void *stream() { return the_stream; }

static const kv_device device = {.abi = KV_DEVICE_ABI,
                                 .name = "cuda",
                                 .title = title,
                                 .near = 0,
                                 .take = take,
                                 .give = give,
                                 .put = put,
                                 .get = get,
                                 .pin = pin,
                                 .unpin = unpin,
                                 .fetch = fetch,
                                 .wait = wait,
                                 .clear = clear,
                                 .failed = failed,
                                 .why_none = why_none,
                                 .hooks = kv_gpu_hooks_named,
                                 .format = kv_gpu_format_named,
                                 .stream = stream,
                                 .record = record,
                                 .replay = replay,
                                 .forget = forget,
                                 .tell = tell,
                                 .queries = queries,
                                 .append = append,
                                 .logits = logits,
                                 .name_views = name_views,
                                 .attend = attend,
                                 .materialise = materialise,
                                 .evidence = evidence,
                                 .report = report,
                                 .window = window,
                                 .count = count,
                                 .compact = compact,
                                 .attend_paged = attend_paged,
                                 .regular = regular,
                                 .rebuilt = rebuilt};

/* Lets the pool keep what it was given back, where the device has one. */
static cudaError_t open_pool() {
  cudaMemPool_t pool;
  int there = 0;
  uint64_t all = UINT64_MAX;
  cudaError_t rc =
      cudaDeviceGetAttribute(&there, cudaDevAttrMemoryPoolsSupported, 0);
  if (rc || !there) return rc;
  rc = cudaDeviceGetDefaultMemPool(&pool, 0);
  if (!rc)
    rc = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
  pooled = !rc;
  return rc;
}

static __global__ void nothing() {}

/* Checks that there is code for this device, then makes the stream and the
 * title. */
static cudaError_t opened() {
  cudaFuncAttributes attributes;
  cudaDeviceProp of;
  int version = 0;
  cudaError_t rc = cudaGetDeviceProperties(&of, 0);
  if (!rc) rc = cudaFuncGetAttributes(&attributes, nothing);
  if (!rc) rc = cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking);
  if (!rc) rc = open_pool();
  if (!rc) rc = cudaDriverGetVersion(&version);
  if (!rc)
    snprintf(the_title, sizeof the_title,
             "%s (sm_%d%d), driver for CUDA %d.%d, runtime %d.%d", of.name,
             of.major, of.minor, version / 1000, version % 1000 / 10,
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  return rc;
}

/* The module's one visible symbol (cuda.map). */
extern "C" __attribute__((visibility("default"))) const kv_device *
kv_device_module(const char **why) {
  int count = 0;
  cudaError_t rc = cudaGetDeviceCount(&count);
  if (!rc && count > 0) rc = opened();
  if (!rc && count > 0) return &device;
  *why = no_device(rc, meaning(rc));
  return nullptr;
}
