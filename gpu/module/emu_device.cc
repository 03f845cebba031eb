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

#define START(name, what, arguments) .name = kv_gpu_start_##name,
static const kv_device emu = {.abi = KV_DEVICE_ABI,
                              .name = "emu",
                              .title = title,
                              .near = 1,
                              .take = take,
                              .give = kv_emu_give,
                              .pin = pin,
                              .unpin = free,
                              .why_none = why_none,
                              .clear = clear,
                              .put = copy,
                              .get = copy,
                              .fetch = copy,
                              .wait = wait,
                              .failed = kv_emu_failed,
                              .ended = ended,
                              .hooks = kv_gpu_hooks_named,
                              .format = kv_gpu_format_named,
                              .stream = stream,
                              .record = record,
                              .replay = replay,
                              .forget = forget,
                              KV_DEVICE_STARTS(START)};
#undef START

const kv_device *kv_device_emu(void) { return &emu; }
