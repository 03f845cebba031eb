/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime of tests/cudart/cudart.h. One thread works with it.
 */
#include <cuda_runtime.h>

#include "tests/cudart/cudart.h"

#include <stdlib.h>
#include <string.h>

/* Numbers that are CUDA's, by whichever header. */
static_assert(cudaErrorMemoryAllocation == 2);
static_assert(cudaErrorInsufficientDriver == 35);
static_assert(cudaErrorIllegalAddress == 700);
static_assert(cudaErrorLaunchFailure == 719);
static_assert(cudaErrorNotSupported == 801);
static_assert(cudaDevAttrMemoryPoolsSupported == 115);
static_assert(cudaMemPoolAttrReleaseThreshold == 4);
static_assert(cudaMemPoolAttrReservedMemCurrent == 5);
static_assert(cudaMemPoolAttrUsedMemCurrent == 7);

/* Memory, given out or kept by the pool; `fresh`: given back, and the stream
 * was not waited for since. */
struct piece {
  piece *next;
  char *at;
  size_t size, reserved;
  bool pooled, live, fresh;
};

struct CUstream_st {
  int nothing;
};
struct CUmemPoolHandle_st {
  int nothing;
};
/* A graph, or one that can be launched, which has its launches. */
struct CUgraph_st {
  void *recorded;
};
struct CUgraphExec_st {
  void *recorded;
};

static CUstream_st the_stream;
static CUmemPoolHandle_st the_pool;
static piece *pieces;
static size_t bytes, reserved;
static cudart_pool pools;
static int64_t held, spoils;
static cudaError_t last, lost;
static bool capturing, spoilt;

/* --- answers -------------------------------------------------------------- */

/* What is to fail, and calls by name since it was said. */
static struct {
  const char *call;
  int64_t n, seen;
  int times;
  cudaError_t code;
  bool done;
} plan;
enum { NAMES = 40 };
static struct {
  const char *call;
  int64_t n;
} counted[NAMES];

static void count(const char *call) {
  int i = 0;
  while (counted[i].call && strcmp(counted[i].call, call)) i++;
  counted[i].call = call;
  counted[i].n++;
  if (i == NAMES - 1) abort();
}

int64_t cudart_calls(const char *call) {
  if (!call) return plan.seen;
  for (int i = 0; counted[i].call; i++)
    if (!strcmp(counted[i].call, call)) return counted[i].n;
  return 0;
}

static cudaError_t say(cudaError_t code) {
  if (code) last = code;
  return code;
}

static bool loses(cudaError_t code) {
  return code >= cudaErrorIllegalAddress && code < cudaErrorNotSupported;
}

/* Of every call: its answer, unless it does something. `any`: it starts
 * something, copies or takes memory. */
static cudaError_t answer(const char *call, bool any) {
  count(call);
  if (lost) return say(lost);
  bool asked = plan.call ? !strcmp(plan.call, call) : any;
  if (!asked || plan.seen++ < plan.n || plan.times == 0) return cudaSuccess;
  plan.times--;
  plan.done = true;
  if (loses(plan.code)) lost = plan.code;
  if (capturing) spoilt = true;
  return say(plan.code);
}

/* Of a call that a stream that is captured does not take. */
static cudaError_t answer_alone(const char *call, bool any) {
  if (!capturing) return answer(call, any);
  spoilt = true;
  spoils++;
  return say(cudaErrorStreamCaptureUnsupported);
}

void cudart_fail(const char *call, int64_t n, int times, int code) {
  plan = {call, n, 0, times, (cudaError_t)code, false};
  memset(counted, 0, sizeof counted);
}

bool cudart_failed(void) { return plan.done; }
size_t cudart_reserved(void) { return reserved; }
int64_t cudart_held(void) { return held; }
int64_t cudart_spoilt(void) { return spoils; }

extern "C" cudaError_t cudaGetLastError(void) {
  cudaError_t code = last;
  last = lost;
  return code;
}
extern "C" const char *cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                           : "cudaErrorOther";
}
extern "C" const char *cudaGetErrorString(cudaError_t) { return "an error"; }

/* --- the device ----------------------------------------------------------- */

extern "C" cudaError_t cudaGetDeviceCount(int *n) {
  *n = 1;
  return answer("cudaGetDeviceCount", false);
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp *of, int) {
  memset(of, 0, sizeof *of);
  strcpy(of->name, "a stand-in");
  of->major = 9;
  return answer("cudaGetDeviceProperties", false);
}
extern "C" cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what,
                                              int) {
  if (what != cudaDevAttrMemoryPoolsSupported) abort();
  *value = pools != CUDART_NO_POOL;
  if (pools == CUDART_NO_ANSWER) return say(cudaErrorNotSupported);
  return answer("cudaDeviceGetAttribute", false);
}
extern "C" cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return answer("cudaDriverGetVersion", false);
}
extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *of,
                                             const void *) {
  memset(of, 0, sizeof *of);
  return answer("cudaFuncGetAttributes", false);
}
extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned) {
  *to = &the_stream;
  return answer("cudaStreamCreateWithFlags", false);
}
extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t) {
  cudaError_t rc = answer_alone("cudaStreamSynchronize", false);
  for (piece *p = pieces; !rc && p; p = p->next) p->fresh = false;
  return rc;
}

/* --- memory --------------------------------------------------------------- */

extern "C" cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
  *left = bytes - reserved;
  *all = bytes;
  return answer("cudaMemGetInfo", false);
}

/* Pieces are never given back to the host, so that a late access is a write
 * into one that nobody has. */
static cudaError_t add(void **to, size_t n, size_t room, bool pooled) {
  if (room > bytes - reserved) return say(cudaErrorMemoryAllocation);
  piece *p = (piece *)calloc(1, sizeof *p);
  *p = {pieces, (char *)malloc(n), n, room, pooled, true, false};
  pieces = p;
  reserved += room;
  held++;
  *to = memset(p->at, 0xAA, n);
  return cudaSuccess;
}

/* What becomes of a piece that is given back. */
static cudaError_t drop(void *at, bool pooled) {
  piece **p = &pieces, *gone;
  while (*p && (*p)->at != at) p = &(*p)->next;
  gone = *p;
  if (!gone || !gone->live || gone->pooled != pooled) abort();
  held--;
  gone->live = false;
  gone->fresh = true;
  if (pooled) return cudaSuccess;
  reserved -= gone->reserved;
  *p = gone->next;
  free(gone->at);
  free(gone);
  return cudaSuccess;
}

extern "C" cudaError_t cudaMalloc(void **to, size_t n) {
  cudaError_t rc = answer_alone("cudaMalloc", true);
  return rc ? rc : add(to, n, n, false);
}
extern "C" cudaError_t cudaFree(void *p) {
  drop(p, false);
  return answer_alone("cudaFree", false);
}

/* Pinned memory is the host's. */
extern "C" cudaError_t cudaMallocHost(void **to, size_t n) {
  cudaError_t rc = answer_alone("cudaMallocHost", true);
  return rc ? rc : add(to, n, 0, false);
}
extern "C" cudaError_t cudaFreeHost(void *p) {
  drop(p, false);
  return answer_alone("cudaFreeHost", false);
}

extern "C" cudaError_t cudaMallocAsync(void **to, size_t n, cudaStream_t) {
  cudaError_t rc = answer_alone("cudaMallocAsync", true);
  if (rc) return rc;
  if (pools == CUDART_NO_TAKING) return say(cudaErrorNotSupported);
  for (piece *p = pieces; p; p = p->next)
    if (p->pooled && !p->live && p->size == n) {
      p->live = true;
      held++;
      *to = memset(p->at, 0xAA, n);
      return cudaSuccess;
    }
  return add(to, n, (n + CUDART_GRAIN - 1) / CUDART_GRAIN * CUDART_GRAIN, true);
}
extern "C" cudaError_t cudaFreeAsync(void *p, cudaStream_t) {
  drop(p, true);
  return answer_alone("cudaFreeAsync", false);
}

extern "C" cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *to, int) {
  *to = &the_pool;
  if (pools == CUDART_NO_DEFAULT) return say(cudaErrorNotSupported);
  return answer("cudaDeviceGetDefaultMemPool", false);
}
extern "C" cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t,
                                               cudaMemPoolAttr what, void *) {
  if (what != cudaMemPoolAttrReleaseThreshold) abort();
  if (pools == CUDART_NO_KEEPING) return say(cudaErrorNotSupported);
  return answer("cudaMemPoolSetAttribute", false);
}
extern "C" cudaError_t
cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr what, void *value) {
  uint64_t n = 0;
  bool all = what == cudaMemPoolAttrReservedMemCurrent;
  if (!all && what != cudaMemPoolAttrUsedMemCurrent) abort();
  for (piece *p = pieces; p; p = p->next)
    if (p->pooled) n += all ? p->reserved : p->live ? p->size : 0;
  memcpy(value, &n, sizeof n);
  return answer("cudaMemPoolGetAttribute", false);
}
extern "C" cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
  cudaError_t rc = answer_alone("cudaMemPoolTrimTo", false);
  for (piece **p = &pieces; !rc && *p;) {
    piece *gone = *p;
    if (!gone->pooled || gone->live || gone->fresh) {
      p = &gone->next;
      continue;
    }
    reserved -= gone->reserved;
    *p = gone->next;
    free(gone->at);
    free(gone);
  }
  return rc;
}

void cudart_reset(size_t all, cudart_pool pool) {
  bytes = all;
  pools = pool;
  last = lost = cudaSuccess;
  spoils = 0;
  cudart_fail(nullptr, 0, 0, 0);
}

/* --- work ----------------------------------------------------------------- */

extern "C" cudaError_t cudaMemsetAsync(void *p, int value, size_t n,
                                       cudaStream_t) {
  cudaError_t rc = answer_alone("cudaMemsetAsync", true);
  if (!rc) memset(p, value, n);
  return rc;
}
extern "C" cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
                                       cudaMemcpyKind, cudaStream_t) {
  cudaError_t rc = answer_alone("cudaMemcpyAsync", true);
  if (!rc) memcpy(to, from, n);
  return rc;
}

bool cudart_starts(void) { return !answer("a kernel", true); }

extern "C" cudaError_t cudaStreamBeginCapture(cudaStream_t,
                                              cudaStreamCaptureMode) {
  cudaError_t rc = answer_alone("cudaStreamBeginCapture", true);
  if (rc) return rc;
  capturing = true;
  spoilt = false;
  cudart_record();
  return cudaSuccess;
}
extern "C" cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *to) {
  bool bad = spoilt;
  if (!capturing) abort();
  capturing = false;
  void *recorded = cudart_recorded();
  cudaError_t rc = answer("cudaStreamEndCapture", true);
  if (!rc && bad) rc = say(cudaErrorStreamCaptureInvalidated);
  *to = nullptr;
  if (rc) {
    cudart_forget(recorded);
    return rc;
  }
  *to = (cudaGraph_t)malloc(sizeof **to);
  (*to)->recorded = recorded;
  held++;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  cudart_forget(graph->recorded);
  free(graph);
  held--;
  return answer("cudaGraphDestroy", false);
}

/* The launches go over to what is made of the graph. */
extern "C" cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *to,
                                                     cudaGraph_t graph,
                                                     unsigned long long) {
  cudaError_t rc = answer("cudaGraphInstantiateWithFlags", true);
  if (rc) return rc;
  *to = (cudaGraphExec_t)malloc(sizeof **to);
  (*to)->recorded = graph->recorded;
  graph->recorded = nullptr;
  held++;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  cudaError_t rc = answer_alone("cudaGraphLaunch", true);
  if (!rc) cudart_replay(graph->recorded);
  return rc;
}
extern "C" cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  cudart_forget(graph->recorded);
  free(graph);
  held--;
  return answer("cudaGraphExecDestroy", false);
}
