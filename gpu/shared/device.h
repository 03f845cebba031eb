/* SPDX-License-Identifier: Apache-2.0
 *
 * A device as the host uses it: one table of functions, filled by the executor
 * on the CPU ("emu", gpu/module/emu_device.cc) and by the CUDA module, which is
 * loaded at run time ("cuda", gpu/module/cuda.cu). gpu/host and tests call it.
 *
 * Order: starts run in the order of the calls. put, get, wait and ended return
 * when they are done. Other calls need not wait, but do if they find no memory,
 * and then try once more. One thread at a time uses a device.
 *
 * Failures are sticky. failed() returns the first one's sentence; from then on
 * "cuda" only frees and forgets, and a fault of "emu" ends the process. Lack of
 * memory is no failure of take and pin: they return NULL, and a caller that
 * frees memory can continue. A copy, a start or a recording that found no
 * memory has failed; on "cuda" until ended(1) is called.
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

/* Starts one of a method's hooks for all lanes of a layer; what it reads of *l
 * is copied. A method's table, which KV_GPU_METHOD makes, has one for each of
 * the method's hooks, named as in ref/lane/hooks.h, and NULL for others. */
typedef void kv_gpu_hook(void *stream, const kv_gpu_layer *l);
#ifdef __cplusplus /* a method's table names only the hooks that it has */
#  define KV_GPU_HOOK(name) kv_gpu_hook *name = nullptr;
#else
#  define KV_GPU_HOOK(name) kv_gpu_hook *name;
#endif
typedef struct kv_gpu_hooks {
  size_t params_size; /* bytes of the parameter struct; must equal the host's */
  KV_HOOKS(KV_GPU_HOOK)
} kv_gpu_hooks;
#undef KV_GPU_HOOK

/* Starts kernels on `stream` in a fixed order; self: the argument of record. */
typedef void kv_gpu_sequence(void *self, void *stream);

/* The functions of a device that start kernels: START(name, what, arguments)
 * for each; what: its name in the sentence of a failure. kv_gpu_start_NAME in
 * gpu/backend is the start itself; kv_device.NAME is the same, on "cuda" unless
 * the device has failed. All take the stream, from kv_device.stream() or of a
 * sequence that is recorded, and all but compact the layer; structs are copied
 * into the kernels. `masked` 1: views are what l->mask has, 0: all entries.
 * None returns anything: check failed().
 *
 *   clock         *l->clock becomes *clock
 *   append        the clock's tokens, `count` of them, enter all lanes
 *   queries       `rows` query rows of the clock go to l->q, as fp32
 *   logits        l->s of `rows` rows and all entries, masked: those in view
 *   name_views    l->place, run, runs, entries of each head's view
 *   materialise   after it: l->materialised of what is in view, if not NULL
 *   attend        after these: l->out by l->s, place and the values
 *   hide          before it: what a sliding window of so many tokens hides of
 *                 each row becomes a logit whose probability is 0
 *   observation   l->p of `rows` rows by l->s, and l->sum over these rows
 *   slide         moves what a method holds by entry (needs.slid) as entries
 *                 leave that the next token does not see through a window of so
 *                 many tokens; drops 1: these then leave
 *   report        the pieces of a stage, a kv_gpu_stage; first 1: a new report
 *                 begins with it
 *   window        once more a stage's data, from byte `window` of the report's
 *                 data on, a multiple of l->report_room
 *   count         p->count, for a kv_gpu_counting
 *   compact       one step of the page manager for the n requests of p->job
 *   attend_paged  logits and attention of lanes in unified pages: l->out
 *   regular       a kv_gpu_regular_act on a store of regular indices
 *   rebuilt       a kv_gpu_rebuilt_act on a layer that holds latent vectors */
#define KV_DEVICE_STARTS(START)                                                \
  START(clock, "a step's clock",                                               \
        (void *stream, const kv_gpu_layer *l, const kv_gpu_clock *clock))      \
  START(append, "the entry of tokens",                                         \
        (void *stream, const kv_gpu_layer *l, int count))                      \
  START(queries, "the reading of queries",                                     \
        (void *stream, const kv_gpu_layer *l, int rows))                       \
  START(logits, "logits",                                                      \
        (void *stream, const kv_gpu_layer *l, int rows, int masked))           \
  START(name_views, "the listing of views",                                    \
        (void *stream, const kv_gpu_layer *l, int masked))                     \
  START(materialise, "the decoding of values",                                 \
        (void *stream, const kv_gpu_layer *l))                                 \
  START(attend, "attention",                                                   \
        (void *stream, const kv_gpu_layer *l, int masked))                     \
  START(hide, "the mask of a sliding window",                                  \
        (void *stream, const kv_gpu_layer *l, int rows, int window))           \
  START(observation, "an observation",                                         \
        (void *stream, const kv_gpu_layer *l, int rows))                       \
  START(slide, "the move of a sliding window",                                 \
        (void *stream, const kv_gpu_layer *l, int window, int drops))          \
  START(report, "a report",                                                    \
        (void *stream, const kv_gpu_layer *l, int stage, int first))           \
  START(window, "the rest of a report",                                        \
        (void *stream, const kv_gpu_layer *l, int stage, uint64_t window))     \
  START(                                                                       \
      count, "the count of pages",                                             \
      (void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p, int when))  \
  START(compact, "the compaction of pages",                                    \
        (void *stream, const kv_gpu_pages *p, int n))                          \
  START(attend_paged, "attention over pages",                                  \
        (void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p))          \
  START(                                                                       \
      regular, "work on regular indices",                                      \
      (void *stream, const kv_gpu_layer *l, const kv_gpu_regular *r, int act)) \
  START(                                                                       \
      rebuilt, "work on latent vectors",                                       \
      (void *stream, const kv_gpu_layer *l, const kv_gpu_rebuilt *r, int act))

typedef struct kv_device {
  int abi;                    /* KV_DEVICE_ABI */
  const char *name;           /* "emu" or "cuda" */
  const char *(*title)(void); /* for people: "NVIDIA H200 (sm_90), .." */
  int near; /* 1: device memory is host memory and may be read in place */

  /* Memory. Pointers from take are device pointers; only the copies below may
   * read and write them. */
  void *(*take)(size_t n); /* n zeroed bytes, 256-byte aligned; NULL: no memory,
                              or the device has failed */
  void (*give)(void *p);   /* frees; accepts NULL */
  void *(*pin)(size_t n);  /* n bytes of host memory that the device can access
                              directly; NULL as above */
  void (*unpin)(void *p);  /* frees; accepts NULL */
  const char *(*why_none)(void); /* why take or pin last returned NULL, as one
                                    sentence; NULL: unknown */
  void (*clear)(void *p, size_t n); /* sets n bytes to 0 */

  /* Copies of n bytes: to the device, and to the host. */
  void (*put)(void *to, const void *from, size_t n);
  void (*get)(void *to, const void *from, size_t n);
  /* To pinned memory; it has arrived after the next wait. */
  void (*fetch)(void *to, const void *from, size_t n);
  void (*wait)(void);          /* returns when all starts are done */
  const char *(*failed)(void); /* the first failure's sentence; NULL: none */
  /* A trace has freed everything: memory kept for the next take goes back to
   * the system. last 1: no other trace is on the device, and a failure for lack
   * of memory is cleared. "emu" keeps nothing and does nothing. */
  void (*ended)(int last);

  /* A method's hooks by its name ("oracle-topk"); NULL: not on this device. */
  const kv_gpu_hooks *(*hooks)(const char *method);
  /* The kv_gpu_format of a format's name ("channel"); -1: not known here. */
  int (*format)(const char *name);

  void *(*stream)(void); /* for starts outside a recording */
  /* Runs run(self, stream), and once more if it found no memory, and keeps its
   * starts instead of starting them, with pointers and structs as they are now.
   * NULL: it has failed, or on "emu" there were no starts. */
  void *(*record)(kv_gpu_sequence *run, void *self);
  void (*replay)(void *recorded); /* starts them, by one call */
  void (*forget)(void *recorded); /* accepts NULL */

#define KV_DEVICE_START(name, what, arguments) void(*name) arguments;
  KV_DEVICE_STARTS(KV_DEVICE_START)
#undef KV_DEVICE_START
} kv_device;

#define KV_DEVICE_START(name, what, arguments)                                 \
  void kv_gpu_start_##name arguments;
KV_DEVICE_STARTS(KV_DEVICE_START)
#undef KV_DEVICE_START

/* Bytes from the beginning of a report with so many pieces to its data. */
#define kv_gpu_report_data(pieces)                                             \
  ((sizeof(kv_gpu_front) + (size_t)(pieces) * sizeof(kv_gpu_piece) + 255) /    \
   256 * 256)

/* Starts that others end with or call, each in a file of its own: the last part
 * of every attention, which joins chunks into l->out; .. */
void kv_gpu_start_join(void *stream, const kv_gpu_layer *l);
/* .. the logits of attend_paged; .. */
void kv_gpu_start_paged_logits(void *stream, const kv_gpu_layer *l,
                               const kv_gpu_paged *p);
/* .. of `regular` attention, and what is asked of a replay's lanes; .. */
void kv_gpu_start_regular_attend(void *stream, const kv_gpu_layer *l,
                                 const kv_gpu_regular *r);
void kv_gpu_start_regular_lanes(void *stream, const kv_gpu_layer *l,
                                const kv_gpu_regular *r, int act);
/* .. and the same of `rebuilt`: attention by one kernel. */
void kv_gpu_start_rebuilt_attend(void *stream, const kv_gpu_layer *l,
                                 const kv_gpu_rebuilt *r);
void kv_gpu_start_rebuilt_lanes(void *stream, const kv_gpu_layer *l,
                                const kv_gpu_rebuilt *r, int act);

/* Identifies the layout of kv_device and of the structs that cross it; a module
 * with another number is refused. It follows from the sizes of the three below,
 * and from a number below 8 (the first) that rises when a meaning or another
 * struct changes and these sizes do not. A method's hooks check the size of its
 * parameters. */
enum {
  KV_DEVICE_ABI = (int)(1 + 8 * (sizeof(kv_device) + 64 * sizeof(kv_gpu_layer) +
                                 4096 * sizeof(kv_gpu_lane)))
};

/* The executor's table; NULL: it was not built. */
const kv_device *kv_device_emu(void);
/* The CUDA module's table; the first call loads the module and opens the
 * device. NULL: *why is one sentence that says what is missing or wrong of the
 * module, the driver or the device; else *why is NULL. */
const kv_device *kv_device_cuda(const char **why);

#ifdef __cplusplus
}
#endif

#endif
