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

static constexpr char a_kernel[] = "starting a kernel";
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

/* An entry of the table: runs START, which launches kernels, unless something
 * has failed; WHAT is what a failure's sentence says. */
template <const char *WHAT, auto START> struct guarded;
template <const char *WHAT, class... A, void (*START)(A...)>
struct guarded<WHAT, START> {
  static void run(A... args) {
    starting = WHAT;
    if (!broken) START(args...);
    starting = a_kernel;
  }
};

#define SAY(name, what, arguments)                                             \
  static constexpr char starting_##name[] = "starting " what;
KV_DEVICE_STARTS(SAY)
#undef SAY

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

#define START(name, what, arguments)                                           \
  .name = guarded<starting_##name, kv_gpu_start_##name>::run,
static const kv_device device = {.abi = KV_DEVICE_ABI,
                                 .name = "cuda",
                                 .title = title,
                                 .near = 0,
                                 .take = take,
                                 .give = give,
                                 .pin = pin,
                                 .unpin = unpin,
                                 .why_none = why_none,
                                 .clear = clear,
                                 .put = put,
                                 .get = get,
                                 .fetch = fetch,
                                 .wait = wait,
                                 .failed = failed,
                                 .ended = ended,
                                 .hooks = kv_gpu_hooks_named,
                                 .format = kv_gpu_format_named,
                                 .stream = stream,
                                 .record = record,
                                 .replay = replay,
                                 .forget = forget,
                                 KV_DEVICE_STARTS(START)};
#undef START

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
