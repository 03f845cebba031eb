/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA module: kv_device on the CUDA runtime, with one stream on the first
 * visible device (CUDA_VISIBLE_DEVICES chooses it). Opened once, by one thread.
 * Its host part is also compiled by a C++ compiler against a runtime that fails
 * on demand (tests/cudart).
 */
#include "gpu/block/launch.h"
#include "gpu/module/kernels.h"
#include "gpu/shared/device.h"
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* --- failures and memory -------------------------------------------------- */

/* The CUDA device's failures and its memory: the first part of
 * gpu/module/cuda.cu, its only user, on the host. Functions that kv_device
 * names (clear, give, take, pin, unpin, why_none, ended) are its entries.
 *
 * The first failure of a call of the runtime is kept as a sentence, and after
 * it nothing is started. That there is no memory is no failure of take and pin.
 * Whatever a call wanted memory for, an array, a copy, a kernel's code, a
 * graph: it is tried once more after the device has been waited for and the
 * pool has given back what it keeps; in a recording, all of the recording.
 *
 * Memory comes from the runtime's pool, which keeps what was given back: a
 * store takes hundreds of arrays, and each would cost a call of the driver.
 * What the pool keeps is lacking elsewhere, though: the driver takes memory of
 * its own from the device. Where the device has no pool that works, as parts of
 * a device and virtual ones may not, each array is a call. */

static cudaStream_t the_stream; /* all work is on it */
static cudaMemPool_t the_pool;  /* nullptr: there is none */
/* What title, failed and why_none say. */
static char the_title[512], the_failure[1024], the_refusal[1024];
/* broken: it has failed, and nothing is started any more; lacking: for lack of
 * memory, and until the last trace has ended. */
static bool broken, lacking;
static bool recording; /* the stream is captured and cannot be waited for */

/* cudaErrorContained, which toolkits before 12.8 do not name. */
static const cudaError_t contained = (cudaError_t)226;

/* Advice for failures whose text from the runtime does not say what to do. */
static const struct {
  cudaError_t code;
  const char *what;
} meanings[] = {
    {cudaErrorMemoryAllocation, "out of device memory"},
    {cudaErrorNoKernelImageForDevice,
     "this build has no code for the device; configure with its architecture "
     "in --with-cuda-arch"},
    {cudaErrorDevicesUnavailable,
     "the device is busy or in exclusive use; try again later"},
    {cudaErrorECCUncorrectable,
     "the device was lost: uncorrectable memory error"},
    {cudaErrorHardwareStackError, "the device was lost: hardware stack error"},
    {cudaErrorLaunchTimeout,
     "the device was lost: a kernel ran longer than this machine allows"},
    {cudaErrorLaunchFailure, "the device was lost: a kernel failed"},
    {contained, "the device was lost: a memory error was contained"},
    {cudaErrorUnknown, "the device was lost: the driver gave no reason"},
    {cudaErrorIllegalAddress,
     "a kernel accessed memory out of bounds; this is a bug in kvreplay, so "
     "run compute-sanitizer and report it"},
    {cudaErrorAssert, "an assertion in a kernel failed; this is a bug in "
                      "kvreplay, so report the line above"},
};

/* What a failure's sentence says of a code. */
static const char *meaning(cudaError_t code) {
  for (const auto &m : meanings)
    if (m.code == code) return m.what;
  return cudaGetErrorString(code);
}

/* --- no memory ------------------------------------------------------------ */

/* Bytes that the pool has of the device and that nobody uses. */
static size_t kept() {
  uint64_t reserved = 0, used = 0;
  if (!the_pool) return 0;
  cudaMemPoolGetAttribute(the_pool, cudaMemPoolAttrReservedMemCurrent,
                          &reserved);
  cudaMemPoolGetAttribute(the_pool, cudaMemPoolAttrUsedMemCurrent, &used);
  return (size_t)(reserved > used ? reserved - used : 0);
}

/* Writes the sentence that there is no memory of a kind into to [room], with
 * what wanted it: `doing` ("sending") n bytes; 0: how many is not known.
 * Forgets the runtime's error, which does not last. */
static void say_none(const char *kind, const char *doing, size_t n, char *to,
                     size_t room) {
  size_t left = 0, all = 0;
  char bytes[32] = "";
  cudaGetLastError();
  cudaMemGetInfo(&left, &all);
  if (n) snprintf(bytes, sizeof bytes, " %zu bytes", n);
  snprintf(to, room,
           "CUDA: out of %s, %s%s: %zu of the device's %zu bytes are free, "
           "plus %zu unused in this process's pool, on %s; replay fewer tokens "
           "or methods at once, or use a larger device",
           kind, doing, bytes, left, all, kept(), the_title);
  cudaGetLastError();
}

/* --- failures ------------------------------------------------------------- */

/* Checks what a call returned and keeps the first failure; doing, bytes: for
 * its sentence. True: it succeeded, and so did all before. */
static bool fine(cudaError_t code, const char *doing, size_t bytes) {
  if (code == cudaSuccess) return !broken;
  if (broken) return false;
  broken = true;
  lacking = code == cudaErrorMemoryAllocation;
  if (lacking) {
    say_none("device memory", doing, bytes, the_failure, sizeof the_failure);
    return false;
  }
  char size[64] = "";
  if (bytes) snprintf(size, sizeof size, " %zu bytes", bytes);
  snprintf(the_failure, sizeof the_failure, "CUDA: %s%s: %s (%s)", doing, size,
           meaning(code), cudaGetErrorName(code));
  return false;
}

/* Waits for the device and has the pool give back what nobody uses, so that a
 * call that found no memory may be tried again. False: that is not possible
 * now. */
static bool make_room() {
  cudaGetLastError();
  if (recording || broken) return false;
  if (!fine(cudaStreamSynchronize(the_stream), "waiting for the device", 0))
    return false;
  if (the_pool) cudaMemPoolTrimTo(the_pool, 0);
  cudaGetLastError();
  return true;
}

/* What a call returns, or its second try where it found no memory. */
template <class C> static cudaError_t tried(C call) {
  cudaError_t rc = call();
  return rc == cudaErrorMemoryAllocation && make_room() ? call() : rc;
}

/* Makes a failure for lack of memory over; no other one. */
static void forgive() {
  if (!lacking) return;
  broken = lacking = false;
  cudaGetLastError();
}

/* --- entries of kv_device (gpu/shared/device.h says what each does) --------
 */

static void ended(int last) {
  if (last) forgive();
  make_room();
}

static void clear(void *p, size_t n) {
  if (broken || !n) return;
  fine(tried([&] { return cudaMemsetAsync(p, 0, n, the_stream); }), "clearing",
       n);
}

/* take and pin found no memory: keeps why. Returns nullptr. */
static void *refused(const char *kind, size_t n) {
  say_none(kind, "taking", n, the_refusal, sizeof the_refusal);
  return nullptr;
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
  if (p) given(the_pool ? cudaFreeAsync(p, the_stream) : cudaFree(p));
}

static void *take(size_t n) {
  void *p = nullptr;
  if (broken) return nullptr;
  n = n ? n : 1;
  cudaError_t rc = tried([&] {
    return the_pool ? cudaMallocAsync(&p, n, the_stream) : cudaMalloc(&p, n);
  });
  if (rc == cudaErrorMemoryAllocation) return refused("device memory", n);
  if (!fine(rc, "taking", n)) return nullptr;
  clear(p, n);
  if (!broken) return p;
  give(p);
  return nullptr;
}

static void *pin(size_t n) {
  void *p = nullptr;
  if (broken) return nullptr;
  n = n ? n : 1;
  cudaError_t rc = tried([&] { return cudaMallocHost(&p, n); });
  if (rc == cudaErrorMemoryAllocation) return refused("page-locked memory", n);
  return fine(rc, "taking page-locked memory of", n) ? p : nullptr;
}

static void unpin(void *p) {
  if (p) given(cudaFreeHost(p));
}

static const char *why_none() { return the_refusal; }

/* --- the pool ------------------------------------------------------------- */

/* Has the device's default pool keep what it is given back, and tries it: not
 * all that say they have one can be asked for its memory. */
static cudaError_t try_pool(cudaMemPool_t *pool) {
  uint64_t all = UINT64_MAX;
  void *p = nullptr;
  cudaError_t rc = cudaDeviceGetDefaultMemPool(pool, 0);
  if (!rc)
    rc = cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &all);
  if (!rc) rc = cudaMallocAsync(&p, 1, the_stream);
  if (!rc) rc = cudaFreeAsync(p, the_stream);
  return rc;
}

/* When the device is opened: sets the_pool, if one works. */
static void open_pool() {
  cudaMemPool_t pool = nullptr;
  int there = 0;
  cudaError_t rc =
      cudaDeviceGetAttribute(&there, cudaDevAttrMemoryPoolsSupported, 0);
  if (!rc && there && !try_pool(&pool)) the_pool = pool;
  cudaGetLastError();
}

/* --- why there is no device ----------------------------------------------- */

/* Why the CUDA module has no device, in one sentence that says what to do; part
 * of gpu/module/cuda.cu, on the host. Sentences are in static memory. */

/* The driver's own version, as 550.54.14: the first word with a dot of what its
 * module says to the system; "" where it says nothing. */
static const char *driver_version() {
  static char line[256];
  FILE *f = fopen("/proc/driver/nvidia/version", "r");
  const char *said = f ? fgets(line, sizeof line, f) : nullptr;
  if (f) fclose(f);
  for (char *w = said ? strtok(line, " \n") : nullptr; w;
       w = strtok(nullptr, " \n"))
    if (*w >= '0' && *w <= '9' && strchr(w, '.')) return w;
  return "";
}

/* Of cudaErrorInsufficientDriver: that there is no driver (it reports version
 * 0), or that it is too old. */
static const char *no_driver() {
  int knows = 0, runtime = CUDART_VERSION;
  static char said[320];
  cudaDriverGetVersion(&knows);
  if (knows == 0)
    return "this machine has no CUDA driver; install NVIDIA's driver";
  const char *own = driver_version();
  snprintf(said, sizeof said,
           "the CUDA driver%s%s is too old: it supports CUDA %d.%d and this "
           "build needs %d.0; update the driver, or build with a CUDA %d "
           "toolkit (--with-cuda=DIR)",
           own[0] ? " " : "", own, knows / 1000, knows % 1000 / 10,
           runtime / 1000, knows / 1000);
  return said;
}

/* The sentence, for what opening a device returned (cudaSuccess: there are no
 * devices); meaning: what the code says, as a sentence has it. */
static const char *no_device(cudaError_t code, const char *meaning) {
  static char said[512];
  if (code == cudaErrorInsufficientDriver) return no_driver();
  if (code == cudaSuccess || code == cudaErrorNoDevice)
    return "the driver shows this process no CUDA device";
  snprintf(said, sizeof said, "cannot use CUDA: %s (%s)", meaning,
           cudaGetErrorName(code));
  return said;
}

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
