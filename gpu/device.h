/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is to the host: one table, filled by the executor on the CPU
 * (name "emu") and by the CUDA module, which is loaded at run time ("cuda").
 * Pointers that take() gives are the device's and go through put, get and
 * fetch. Work is started in the order of the calls; put, get and wait return
 * when it is done, nothing else waits. A failure is remembered: failed() tells
 * the first one, and nothing after it has an effect but give, unpin and
 * forget.
 */
#ifndef KV_GPU_DEVICE_H
#define KV_GPU_DEVICE_H

#include "gpu/lane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts of a method's hooks; NULL where it has none. */
typedef void kv_gpu_hook(void *stream, const kv_gpu_layer *l);
typedef struct kv_gpu_hooks {
  size_t params_size; /* the host's must be the same */
  kv_gpu_hook *arrive;
  kv_gpu_hook *view;
  kv_gpu_hook *observe;
  kv_gpu_hook *settle_lane;
  kv_gpu_hook *settle_layer;
} kv_gpu_hooks;

/* Starts kernels in a fixed order; `self` is the caller's. */
typedef void kv_gpu_sequence(void *self, void *stream);

typedef struct kv_device {
  int abi;                    /* KV_DEVICE_ABI */
  const char *name;           /* emu, cuda */
  const char *(*title)(void); /* of the device: "NVIDIA H200, driver .." */

  int near; /* its memory is the host's and may be read in place */
  void *(*take)(size_t n); /* zeroed; NULL: no memory */
  void (*give)(void *p);   /* accepts NULL */
  void (*put)(void *to, const void *from, size_t n);
  void (*get)(void *to, const void *from, size_t n);
  /* Memory of the host that the device reaches by itself. NULL: no memory. */
  void *(*pin)(size_t n);
  void (*unpin)(void *p); /* accepts NULL */
  /* To pinned memory, which has it after the next wait. */
  void (*fetch)(void *to, const void *from, size_t n);
  void (*wait)(void);
  void (*clear)(void *p, size_t n);
  const char *(*failed)(void); /* a sentence, or NULL */

  /* A method's hooks by name; NULL: this device does not have it. */
  const kv_gpu_hooks *(*hooks)(const char *method);
  void *(*stream)(void);
  /* A sequence recorded once and started again and again, all its kernels by
   * one call (CUDA: a graph). NULL: it could not be; failed() says why. */
  void *(*record)(kv_gpu_sequence *run, void *self);
  void (*replay)(void *recorded);
  void (*forget)(void *recorded); /* accepts NULL */
  /* gpu/load.cu: what the step is about, and its query rows */
  void (*tell)(void *stream, const kv_gpu_layer *l, const kv_gpu_clock *clock);
  void (*queries)(void *stream, const kv_gpu_layer *l, int rows);
  /* gpu/append.cu */
  void (*append)(void *stream, const kv_gpu_layer *l);
  /* gpu/logits.cu: of the tile's rows against all entries */
  void (*logits)(void *stream, const kv_gpu_layer *l, int rows, int masked);
  /* gpu/attend.cu: the view from its mask, or (hooks->view NULL) everything;
   * then the attention of it */
  void (*name_views)(void *stream, const kv_gpu_layer *l, int masked);
  void (*attend)(void *stream, const kv_gpu_layer *l, int masked);
  /* gpu/evidence.cu: probabilities and their sums of the tile's rows */
  void (*evidence)(void *stream, const kv_gpu_layer *l, int rows);
  /* gpu/report.cu: a stage (kv_gpu_stage), the first of a report or not; what
   * of it lies further on in the stream of its data */
  void (*report)(void *stream, const kv_gpu_layer *l, int stage, int first);
  void (*window)(void *stream, const kv_gpu_layer *l, int stage,
                 uint64_t window);
} kv_device;

/* Where the data of a report of so many pieces begins. */
#define kv_gpu_report_data(pieces)                                             \
  ((sizeof(kv_gpu_front) + (size_t)(pieces) * sizeof(kv_gpu_piece) + 255) /    \
   256 * 256)

/* Starters: each .cu above defines its own, for every table. */
void kv_gpu_start_tell(void *stream, const kv_gpu_layer *l,
                       const kv_gpu_clock *clock);
void kv_gpu_start_queries(void *stream, const kv_gpu_layer *l, int rows);
void kv_gpu_start_append(void *stream, const kv_gpu_layer *l);
void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l, int rows,
                         int masked);
void kv_gpu_start_name_views(void *stream, const kv_gpu_layer *l, int masked);
void kv_gpu_start_attend(void *stream, const kv_gpu_layer *l, int masked);
void kv_gpu_start_evidence(void *stream, const kv_gpu_layer *l, int rows);
void kv_gpu_start_report(void *stream, const kv_gpu_layer *l, int stage,
                         int first);
void kv_gpu_start_window(void *stream, const kv_gpu_layer *l, int stage,
                         uint64_t window);

/* Says which kv_device and which structs crossing it were compiled: their
 * sizes, under a number that is raised when a meaning changes. The size of a
 * method's params goes with its hooks. */
enum {
  KV_DEVICE_ABI = (int)(2 + 8 * (sizeof(kv_device) + 64 * sizeof(kv_gpu_layer) +
                                 4096 * sizeof(kv_gpu_lane)))
};

/* The executor; NULL where it was not built. */
const kv_device *kv_device_emu(void);
/* The CUDA module: loaded on the first call. NULL: *why is one sentence that
 * says whether the module, the driver or the device is missing. */
const kv_device *kv_device_cuda(const char **why);

#ifdef __cplusplus
}
#endif

#endif
