/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is to the host: one table, filled by the executor on the CPU
 * (name "emu") and by the CUDA module, which is loaded at run time ("cuda").
 * Pointers that take() gives are the device's and go through put and get.
 * Work is started in the order of the calls; put and get return when it is
 * done. A failure is remembered: failed() tells the first one, and nothing
 * after it has an effect.
 */
#ifndef KV_GPU_DEVICE_H
#define KV_GPU_DEVICE_H

#include "gpu/lane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts of a method's hooks; NULL where it has none. */
typedef struct kv_gpu_hooks {
  void (*arrive)(void *stream, const kv_gpu_layer *l);
  void (*view)(void *stream, const kv_gpu_layer *l);
  void (*observe)(void *stream, const kv_gpu_layer *l);
  void (*settle_lane)(void *stream, const kv_gpu_layer *l);
  void (*settle_layer)(void *stream, const kv_gpu_layer *l);
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
} kv_device;

/* Starters: each .cu above defines its own, for every table. */
void kv_gpu_start_append(void *stream, const kv_gpu_layer *l);
void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l, int rows,
                         int masked);
void kv_gpu_start_name_views(void *stream, const kv_gpu_layer *l, int masked);
void kv_gpu_start_attend(void *stream, const kv_gpu_layer *l, int masked);
void kv_gpu_start_evidence(void *stream, const kv_gpu_layer *l, int rows);

/* Says which kv_device and which structs crossing it were compiled: their
 * sizes, under a number that is raised when a meaning changes. */
enum {
  KV_DEVICE_ABI = (int)(1 + 8 * (sizeof(kv_device) + 64 * sizeof(kv_gpu_layer) +
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
