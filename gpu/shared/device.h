/* SPDX-License-Identifier: Apache-2.0
 *
 * The device as the host uses it: one table of functions, filled by the
 * executor on the CPU ("emu") and by the CUDA module, which is loaded at run
 * time ("cuda"). Pointers returned by take() are device pointers, read and
 * written through put, get and fetch only. Work is started in the order of the
 * calls; put, get and wait return when it is done, the others at once. Errors
 * are sticky: failed() returns the first, and after it only give, unpin and
 * forget have an effect. That there is no memory is no error: take and pin
 * return NULL, and who gives back what it has can go on. A start or a copy that
 * there was no memory for is an error until the last trace has ended.
 */
#ifndef KV_GPU_DEVICE_H
#define KV_GPU_DEVICE_H

#include "gpu/shared/lane.h"
#include "gpu/shared/paged.h"
#include "gpu/shared/rebuilt.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ref/lane/hooks.h"

/* The functions that start a method's hooks (ref/lane/hooks.h), by name; NULL
 * where the method has none. */
typedef void kv_gpu_hook(void *stream, const kv_gpu_layer *l);
#ifdef __cplusplus /* a method's table names only the hooks that it has */
#  define KV_GPU_HOOK(name) kv_gpu_hook *name = nullptr;
#else
#  define KV_GPU_HOOK(name) kv_gpu_hook *name;
#endif
typedef struct kv_gpu_hooks {
  size_t params_size; /* must equal the host's */
  KV_HOOKS(KV_GPU_HOOK)
} kv_gpu_hooks;
#undef KV_GPU_HOOK

/* Starts kernels in a fixed order; `self` is the caller's argument. */
typedef void kv_gpu_sequence(void *self, void *stream);

typedef struct kv_device {
  int abi;                    /* KV_DEVICE_ABI */
  const char *name;           /* emu, cuda */
  const char *(*title)(void); /* name of the device: "NVIDIA H200, driver .." */

  int near; /* device memory is host memory and may be read in place */
  void *(*take)(size_t n); /* n zeroed bytes; NULL: no memory */
  void (*give)(void *p);   /* accepts NULL */
  void (*put)(void *to, const void *from, size_t n);
  void (*get)(void *to, const void *from, size_t n);
  /* Host memory that the device can access directly (pinned). NULL: no memory.
   */
  void *(*pin)(size_t n);
  void (*unpin)(void *p); /* accepts NULL */
  /* Copies to pinned memory; complete after the next wait. */
  void (*fetch)(void *to, const void *from, size_t n);
  void (*wait)(void);
  void (*clear)(void *p, size_t n);
  const char *(*failed)(void); /* a sentence, or NULL */
  /* Why take or pin returned NULL last; NULL: nothing more is known. */
  const char *(*why_none)(void);
  /* A trace has given back all that it had; `last`: there is no other one on
   * the device. Memory that is kept for the next take goes back to the system,
   * and after the last trace it is no error any more that memory was lacking.
   */
  void (*ended)(int last);

  /* A method's hooks by name; NULL: this device does not have the method. */
  const kv_gpu_hooks *(*hooks)(const char *method);
  /* The number that slabs use for a format, by its name in
   * ref/formats/format.h; -1: this device cannot code or decode it. */
  int (*format)(const char *name);
  void *(*stream)(void);
  /* Records a sequence of kernels, which replay starts by one call (CUDA: a
   * graph). NULL: it could not be recorded; failed() says why. */
  void *(*record)(kv_gpu_sequence *run, void *self);
  void (*replay)(void *recorded);
  void (*forget)(void *recorded); /* accepts NULL */
  /* gpu/backend/load.cu: the step's clock; its query rows */
  void (*clock)(void *stream, const kv_gpu_layer *l, const kv_gpu_clock *clock);
  void (*queries)(void *stream, const kv_gpu_layer *l, int rows);
  /* gpu/backend/append.cu: the clock's tokens, `count` of them */
  void (*append)(void *stream, const kv_gpu_layer *l, int count);
  /* gpu/backend/logits.cu: the tile's rows against all entries */
  void (*logits)(void *stream, const kv_gpu_layer *l, int rows, int masked);
  /* gpu/backend/views.cu: lists the entries of each view, from its mask or
   * (hooks->view NULL) all of them; gpu/backend/attend.cu: attends them */
  void (*name_views)(void *stream, const kv_gpu_layer *l, int masked);
  void (*attend)(void *stream, const kv_gpu_layer *l, int masked);
  /* gpu/backend/materialise.cu: between those two; does nothing if
   * l->materialised is NULL */
  void (*materialise)(void *stream, const kv_gpu_layer *l);
  /* gpu/backend/observation.cu: probabilities of a tile's rows, their sums */
  void (*observation)(void *stream, const kv_gpu_layer *l, int rows);
  /* gpu/backend/report.cu: reports a stage; `first` begins a new report. window
   * copies the part of a stage's data that begins at byte `window`. */
  void (*report)(void *stream, const kv_gpu_layer *l, int stage, int first);
  void (*window)(void *stream, const kv_gpu_layer *l, int stage,
                 uint64_t window);
  /* gpu/backend/place.cu: how many numbers lanes may need, a kv_gpu_counting */
  void (*count)(void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p,
                int when);
  /* gpu/backend/pages.cu: one step of the n requests of p->job */
  void (*compact)(void *stream, const kv_gpu_pages *p, int n);
  /* gpu/backend/paged_logits.cu, paged.cu: logits and attention of lanes in
   * unified pages */
  void (*attend_paged)(void *stream, const kv_gpu_layer *l,
                       const kv_gpu_paged *p);
  /* gpu/backend/rewrite.cu, regular.cu, regular_lanes.cu: what is done with a
   * store of regular indices, a kv_gpu_regular_act */
  void (*regular)(void *stream, const kv_gpu_layer *l, const kv_gpu_regular *r,
                  int act);
  /* gpu/backend/rebuilt.cu, rebuilt_stages.cu, rebuilt_lanes.cu: what is done
   * with a layer that holds latent vectors, a kv_gpu_rebuilt_act */
  void (*rebuilt)(void *stream, const kv_gpu_layer *l, const kv_gpu_rebuilt *r,
                  int act);
} kv_device;

/* Offset of the data in a report with this many pieces. */
#define kv_gpu_report_data(pieces)                                             \
  ((sizeof(kv_gpu_front) + (size_t)(pieces) * sizeof(kv_gpu_piece) + 255) /    \
   256 * 256)

/* The starters of the table: each .cu named above defines its own. */
void kv_gpu_start_clock(void *stream, const kv_gpu_layer *l,
                        const kv_gpu_clock *clock);
void kv_gpu_start_queries(void *stream, const kv_gpu_layer *l, int rows);
void kv_gpu_start_append(void *stream, const kv_gpu_layer *l, int count);
void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l, int rows,
                         int masked);
void kv_gpu_start_name_views(void *stream, const kv_gpu_layer *l, int masked);
void kv_gpu_start_attend(void *stream, const kv_gpu_layer *l, int masked);
/* The second half of attend, which starts it. */
void kv_gpu_start_join(void *stream, const kv_gpu_layer *l);
void kv_gpu_start_materialise(void *stream, const kv_gpu_layer *l);
void kv_gpu_start_observation(void *stream, const kv_gpu_layer *l, int rows);
void kv_gpu_start_report(void *stream, const kv_gpu_layer *l, int stage,
                         int first);
void kv_gpu_start_window(void *stream, const kv_gpu_layer *l, int stage,
                         uint64_t window);
void kv_gpu_start_count(void *stream, const kv_gpu_layer *l,
                        const kv_gpu_paged *p, int when);
void kv_gpu_start_compact(void *stream, const kv_gpu_pages *p, int n);
void kv_gpu_start_paged_logits(void *stream, const kv_gpu_layer *l,
                               const kv_gpu_paged *p);
void kv_gpu_start_paged(void *stream, const kv_gpu_layer *l,
                        const kv_gpu_paged *p);
void kv_gpu_start_regular(void *stream, const kv_gpu_layer *l,
                          const kv_gpu_regular *r, int act);
/* Of it, attention; and what lanes whose rows are there ask for. */
void kv_gpu_start_regular_attend(void *stream, const kv_gpu_layer *l,
                                 const kv_gpu_regular *r);
void kv_gpu_start_regular_lanes(void *stream, const kv_gpu_layer *l,
                                const kv_gpu_regular *r, int act);
void kv_gpu_start_rebuilt(void *stream, const kv_gpu_layer *l,
                          const kv_gpu_rebuilt *r, int act);
/* Of it, the one kernel and the join; and what a replay's lanes ask for. */
void kv_gpu_start_rebuilt_attend(void *stream, const kv_gpu_layer *l,
                                 const kv_gpu_rebuilt *r);
void kv_gpu_start_rebuilt_lanes(void *stream, const kv_gpu_layer *l,
                                const kv_gpu_rebuilt *r, int act);

/* Identifies the layout of kv_device and of the structs that cross it: their
 * sizes, and a number to raise when a meaning changes. The size of a method's
 * params is in its hooks. */
enum {
  KV_DEVICE_ABI = (int)(8 + 8 * (sizeof(kv_device) + 64 * sizeof(kv_gpu_layer) +
                                 4096 * sizeof(kv_gpu_lane)))
};

/* The executor; NULL if it was not built. */
const kv_device *kv_device_emu(void);
/* The CUDA module, loaded on the first call. NULL: *why is one sentence that
 * says whether the module, the driver or the device is missing. */
const kv_device *kv_device_cuda(const char **why);

#ifdef __cplusplus
}
#endif

#endif
