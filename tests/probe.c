/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of tests/probe.h: emu's table with a device of its own.
 */
#include "tests/probe.h"
#include "gpu/backends.h"
#include "gpu/device.h"
#include "gpu/store.h"
#include "tests/mad.h"

#include <stdlib.h>
#include <string.h>

extern const kv_gpu_hooks kv_gpu_mad; /* tests/mad_twin.cc */

static _Thread_local int64_t rows;

int64_t probe_rows(void) { return rows; }

static const kv_gpu_hooks *hooks(const char *method) {
  bool mad = strcmp(method, mad_method.name) == 0;
  return mad ? &kv_gpu_mad : kv_device_emu()->hooks(method);
}

/* --- rows ---------------------------------------------------------------- */

static void evidence(void *stream, const kv_gpu_layer *l, int n) {
  if (l->needs.want & (KV_P | KV_SUM)) rows += (int64_t)n * l->shape.n_heads;
  kv_device_emu()->evidence(stream, l, n);
}

typedef struct recorded {
  void *list;
  int64_t rows; /* of each time that it is replayed */
} recorded;

static void *record(kv_gpu_sequence *run, void *self) {
  recorded *r = malloc(sizeof *r);
  int64_t before = rows;
  if (!r) return NULL;
  r->list = kv_device_emu()->record(run, self);
  r->rows = rows - before;
  rows = before;
  return r;
}

static void replay(void *it) {
  const recorded *r = it;
  rows += r->rows;
  kv_device_emu()->replay(r->list);
}

static void forget(void *it) {
  recorded *r = it;
  if (r) kv_device_emu()->forget(r->list);
  free(r);
}

/* --- tables -------------------------------------------------------------- */

static kv_device device;

static kv_rc open_probe(const kv_plan *plan, kv_store **out, kv_err *e) {
  return kv_gpu_open(&device, plan, out, e);
}

const kv_backend *probe_backend(void) {
  static kv_backend probe;
  if (probe.open) return &probe;
  device = *kv_device_emu();
  device.hooks = hooks;
  device.evidence = evidence;
  device.record = record;
  device.replay = replay;
  device.forget = forget;
  probe = kv_backend_emu;
  probe.open = open_probe;
  return &probe;
}
