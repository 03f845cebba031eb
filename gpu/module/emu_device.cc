/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor as a device: its memory is the host's, a stream is the order
 * of the calls, a recorded sequence is a list of launches.
 */
#include "gpu/emu/emu.h"
#include "gpu/module/kernels.h"

#include <stdlib.h>

static const char *title(void) { return "the executor on the CPU"; }

static void *take(size_t n) {
  void *p = kv_emu_take(n);
  if (p) memset(p, 0, n);
  return p;
}

static void copy(void *to, const void *from, size_t n) {
  if (n) memcpy(to, from, n);
}

static void *pin(size_t n) { return calloc(n ? n : 1, 1); }

/* Everything is done when its call returns. */
static void wait(void) {}

static const char *why_none(void) { return nullptr; }

static void ended(int) {}

static void clear(void *p, size_t n) {
  if (n) memset(p, 0, n);
}

static void *stream(void) { return nullptr; }

static void *record(kv_gpu_sequence *run, void *self) {
  kv_emu_record();
  run(self, nullptr);
  return kv_emu_recorded();
}

static void replay(void *recorded) {
  kv_emu_replay((const kv_emu_list *)recorded);
}

static void forget(void *recorded) { kv_emu_forget((kv_emu_list *)recorded); }

static const kv_device emu = {
    KV_DEVICE_ABI,
    "emu",
    title,
    1,
    take,
    kv_emu_give,
    copy,
    copy,
    pin,
    free,
    copy,
    wait,
    clear,
    kv_emu_failed,
    why_none,
    ended,
    kv_gpu_hooks_named,
    kv_gpu_format_named,
    stream,
    record,
    replay,
    forget,
    kv_gpu_start_clock,
    kv_gpu_start_queries,
    kv_gpu_start_append,
    kv_gpu_start_logits,
    kv_gpu_start_name_views,
    kv_gpu_start_attend,
    kv_gpu_start_materialise,
    kv_gpu_start_observation,
    kv_gpu_start_report,
    kv_gpu_start_window,
    kv_gpu_start_count,
    kv_gpu_start_compact,
    kv_gpu_start_paged,
    kv_gpu_start_regular,
    kv_gpu_start_rebuilt,
};

const kv_device *kv_device_emu(void) { return &emu; }
