/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device's failures and its memory: the first part of
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
 * a device and virtual ones may not, each array is a call.
 */
#ifndef KV_GPU_MODULE_MEMORY_CUH
#define KV_GPU_MODULE_MEMORY_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
           "CUDA: out of %s, %s%s: %zu bytes of the device's %zu are free, and "
           "%zu more lie unused in the pool of this process, on %s; replay "
           "fewer tokens or methods at once, or use a larger device",
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

#endif
