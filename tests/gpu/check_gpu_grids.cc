/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel of a replay can be started for as many tokens as a trace may
 * have, 2^23, and as many query heads as a device takes: CUDA has 2^31 - 1
 * blocks in x of a grid, 65,535 in y and in z, and the executor says so. They
 * are recorded, not run. A whole table of starts and every hook of every
 * method, on a layer with nothing in it but sizes.
 */
#include "gpu/emu/emu.h"
#include "gpu/shared/device.h"

#include <stdio.h>
extern "C" {
#include "ref/lane/method.h"
}
#include "tests/support/test.h"

enum { TOKENS = 1 << 23, HEADS = 65535, CASES = 4 };

/* Lanes and query heads: one, as models have, and the most. */
static const int lanes[CASES] = {1, 8, 1, HEADS};
static const int heads[CASES] = {1, 64, HEADS, HEADS};

static const kv_device *device;
static char said[1024];

static void keep(const char *sentence) {
  if (!said[0]) snprintf(said, sizeof said, "%s", sentence);
}

static kv_gpu_layer layer_of(int c) {
  static float made;
  kv_gpu_layer l = {};
  l.shape.n_tokens = TOKENS;
  l.shape.n_heads = heads[c];
  l.shape.d = l.shape.d_v = 64;
  l.shape.softcap = 30;
  l.lanes = lanes[c];
  l.stride = TOKENS;
  l.chunks = (int)TOKENS / (int)KV_GPU_CHUNK;
  l.needs.want = KV_Q | KV_S | KV_P | KV_SUM;
  l.materialised = &made;
  return l;
}

static void fits(const char *name, int c) {
  if (said[0])
    fail_msg("%s of %d lanes, %d heads: %s", name, lanes[c], heads[c], said);
}

static int begin(void **) {
  said[0] = 0;
  kv_emu_record();
  return 0;
}

static int end(void **) {
  kv_emu_forget(kv_emu_recorded());
  return 0;
}

/* --- hooks ---------------------------------------------------------------- */

static void starts(const char *method, const char *hook, kv_gpu_hook *start,
                   kv_gpu_layer *l, int c) {
  char name[128];
  if (!start) return;
  snprintf(name, sizeof name, "%s of %s", hook, method);
  start(nullptr, l);
  fits(name, c);
}

static void hooks_of(const char *method, const kv_gpu_hooks *h, int c) {
  kv_gpu_layer l = layer_of(c);
#define KV_HOOK(name) starts(method, #name, h->name, &l, c);
  KV_HOOKS(KV_HOOK)
#undef KV_HOOK
}

TEST_ON(all_hooks, begin, end) {
  int with = 0;
  for (int i = 0; kv_method_at(i); i++) {
    const kv_gpu_hooks *h = device->hooks(kv_method_at(i)->name);
    for (int c = 0; h && c < CASES; c++) hooks_of(kv_method_at(i)->name, h, c);
    with += h != nullptr;
  }
  assert_true(with > 20);
}

/* --- the table ------------------------------------------------------------ */

static void steps_of(int c) {
  kv_gpu_layer l = layer_of(c);
  kv_gpu_clock clock = {};
  device->clock(nullptr, &l, &clock);
  device->queries(nullptr, &l, 16);
  device->append(nullptr, &l, TOKENS);
  for (int masked = 0; masked < 2; masked++) {
    device->logits(nullptr, &l, 16, masked);
    device->name_views(nullptr, &l, masked);
    device->attend(nullptr, &l, masked);
  }
  device->materialise(nullptr, &l);
  device->observation(nullptr, &l, 16);
  device->report(nullptr, &l, KV_GPU_SAY_LANES, 1);
  device->window(nullptr, &l, KV_GPU_SAY_LANES, 0);
  fits("a step", c);
}

static void stores_of(int c) {
  kv_gpu_layer l = layer_of(c);
  kv_gpu_paged paged = {};
  kv_gpu_regular regular = {};
  regular.room = TOKENS;
  regular.words = regular.stride = TOKENS / 32;
  device->count(nullptr, &l, &paged, 0);
  device->attend_paged(nullptr, &l, &paged);
  fits("a step over pages", c);
  device->regular(nullptr, &l, &regular, KV_GPU_REGULAR_ENTER);
  device->regular(nullptr, &l, &regular, KV_GPU_REGULAR_ATTEND);
  device->regular(nullptr, &l, &regular, KV_GPU_REGULAR_REWRITE);
  regular.stride = 0; /* one mask for all lanes */
  device->regular(nullptr, &l, &regular, KV_GPU_REGULAR_READ);
  fits("a step over regular indices", c);
}

TEST_ON(the_table, begin, end) {
  for (int c = 0; c < CASES; c++) {
    steps_of(c);
    stores_of(c);
  }
}

int main(void) {
  device = kv_device_emu();
  kv_emu_fault = keep;
  return tests_run("gpu grids", nullptr, nullptr);
}
