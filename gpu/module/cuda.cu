/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA module: kv_device on the CUDA runtime, with one stream on the first
 * visible device (CUDA_VISIBLE_DEVICES chooses it). Opened once, by one thread.
 * Failures and memory: gpu/module/memory.cuh. Its host part is compiled by a
 * C++ compiler, too, against a runtime that fails on demand (tests/cudart).
 */
#include "gpu/block/launch.h"
#include "gpu/module/kernels.h"
#include "gpu/module/memory.cuh"
#include "gpu/module/no_device.cuh"
#include "gpu/shared/device.h"

#include <stdio.h>
#include <string.h>

/* --- copies --------------------------------------------------------------- */

static bool copied(void *to, const void *from, size_t n, cudaMemcpyKind way,
                   const char *doing) {
  return fine(
      tried([&] { return cudaMemcpyAsync(to, from, n, way, the_stream); }),
      doing, n);
}

/* Waits for the copy, because `from` may change once the call returns: not
 * every system stages pageable memory first. */
static void put(void *to, const void *from, size_t n) {
  if (broken || !n) return;
  if (copied(to, from, n, cudaMemcpyHostToDevice, "sending"))
    fine(cudaStreamSynchronize(the_stream), "sending", n);
}

static void get(void *to, const void *from, size_t n) {
  if (broken || !n) return;
  if (fine(cudaGetLastError(), "starting a kernel", 0) &&
      copied(to, from, n, cudaMemcpyDeviceToHost, "reading"))
    fine(cudaStreamSynchronize(the_stream), "waiting for", n);
}

static void fetch(void *to, const void *from, size_t n) {
  if (!broken && n) copied(to, from, n, cudaMemcpyDeviceToHost, "reading");
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

static const char a_kernel[] = "starting a kernel";
static const char *starting = a_kernel;

/* Of KV_LAUNCH, each time before it starts a kernel and once after. A second
 * try is no second start: one that is refused leaves nothing on the stream.
 * Within a recording there is none, as record repeats all of it. */
extern "C" bool kv_gpu_starts(int *tries) {
  cudaError_t rc = *tries ? cudaGetLastError() : cudaSuccess;
  bool lacks = rc == cudaErrorMemoryAllocation;
  if (*tries && !(lacks && *tries == 1 && make_room())) {
    fine(rc, starting, 0);
    return false;
  }
  ++*tries;
  return !broken;
}

/* Runs start, which launches kernels, unless something has failed. */
template <class F, class... A>
static void started(const char *what, F *start, A... args) {
  starting = what;
  if (!broken) start(args...);
  starting = a_kernel;
}

static void set_clock(void *stream, const kv_gpu_layer *l,
                      const kv_gpu_clock *clock) {
  started("starting a step", kv_gpu_start_clock, stream, l, clock);
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

static void observation(void *stream, const kv_gpu_layer *l, int rows) {
  started("starting observation", kv_gpu_start_observation, stream, l, rows);
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
  recording = true;
  run(self, the_stream);
  cudaError_t rc = cudaStreamEndCapture(the_stream, &graph);
  recording = false;
  if (fine(rc, "recording", 0)) return graph;
  if (graph) cudaGraphDestroy(graph);
  return nullptr;
}

static void *recorded_once(kv_gpu_sequence *run, void *self) {
  cudaGraphExec_t recorded = nullptr;
  cudaGraph_t graph = captured(run, self);
  if (!graph) return nullptr;
  fine(cudaGraphInstantiateWithFlags(&recorded, graph, 0), "recording", 0);
  given(cudaGraphDestroy(graph));
  return recorded;
}

/* Nothing of a sequence has run while it was recorded, so that all of it can be
 * recorded again. */
static void *record(kv_gpu_sequence *run, void *self) {
  if (broken) return nullptr;
  void *recorded = recorded_once(run, self);
  if (recorded || !lacking) return recorded;
  forgive();
  return make_room() ? recorded_once(run, self) : nullptr;
}

static void replay(void *recorded) {
  if (broken) return;
  cudaGraphExec_t graph = (cudaGraphExec_t)recorded;
  fine(tried([&] { return cudaGraphLaunch(graph, the_stream); }),
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
                                 .ended = ended,
                                 .hooks = kv_gpu_hooks_named,
                                 .format = kv_gpu_format_named,
                                 .stream = stream,
                                 .record = record,
                                 .replay = replay,
                                 .forget = forget,
                                 .clock = set_clock,
                                 .queries = queries,
                                 .append = append,
                                 .logits = logits,
                                 .name_views = name_views,
                                 .attend = attend,
                                 .materialise = materialise,
                                 .observation = observation,
                                 .report = report,
                                 .window = window,
                                 .count = count,
                                 .compact = compact,
                                 .attend_paged = attend_paged,
                                 .regular = regular,
                                 .rebuilt = rebuilt};

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
  if (!rc) rc = cudaDriverGetVersion(&version);
  if (!rc) open_pool();
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
