/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of tests/support/backend/probe.h: emu's table with a device of
 * its own.
 */
#include "tests/support/backend/probe.h"
#include "gpu/host/backends.h"
#include "gpu/host/store.h"
#include "gpu/shared/device.h"
#include "tests/made/counts.h"
#include "tests/made/mad.h"
#include "tests/made/rest.h"
#include "tests/made/sieve.h"
#include "tests/made/whim.h"

#include <stdlib.h>
#include <string.h>

/* tests/made/counts_twin.cc, mad_twin.cc, rest_twin.cc, sieve_twin.cc,
 * whim_twin.cc */
extern const kv_gpu_hooks kv_gpu_counts, kv_gpu_mad, kv_gpu_rest, kv_gpu_sieve,
    kv_gpu_whim, kv_gpu_whim_plain;

static const struct {
  const kv_method *method;
  const kv_gpu_hooks *twin;
} made_up[] = {
    {&counts_method, &kv_gpu_counts}, {&mad_method, &kv_gpu_mad},
    {&rest_method, &kv_gpu_rest},     {&sieve_method, &kv_gpu_sieve},
    {&whim_method, &kv_gpu_whim},     {&whim_plain_method, &kv_gpu_whim_plain}};

static _Thread_local int64_t rows, logit_rows;

int64_t probe_rows(void) { return rows; }
int64_t probe_logit_rows(void) { return logit_rows; }

static const kv_gpu_hooks *hooks(const char *method) {
  for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
    if (strcmp(method, made_up[i].method->name) == 0) return made_up[i].twin;
  return kv_device_emu()->hooks(method);
}

/* --- rows ---------------------------------------------------------------- */

static void logits(void *stream, const kv_gpu_layer *l, int n, int masked) {
  if (!masked) logit_rows += (int64_t)n * l->shape.n_heads;
  kv_device_emu()->logits(stream, l, n, masked);
}

static void observation(void *stream, const kv_gpu_layer *l, int n) {
  if (l->needs.want & (KV_P | KV_SUM)) rows += (int64_t)n * l->shape.n_heads;
  kv_device_emu()->observation(stream, l, n);
}

typedef struct recorded {
  void *list;
  int64_t rows, logit_rows; /* of each time that it is replayed */
} recorded;

static void *record(kv_gpu_sequence *run, void *self) {
  recorded *r = malloc(sizeof *r);
  int64_t before = rows, logits_before = logit_rows;
  if (!r) return NULL;
  r->list = kv_device_emu()->record(run, self);
  r->rows = rows - before;
  r->logit_rows = logit_rows - logits_before;
  rows = before;
  logit_rows = logits_before;
  return r;
}

static void replay(void *it) {
  const recorded *r = it;
  rows += r->rows;
  logit_rows += r->logit_rows;
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
  device.observation = observation;
  device.logits = logits;
  device.record = record;
  device.replay = replay;
  device.forget = forget;
  probe = kv_backend_emu;
  probe.open = open_probe;
  return &probe;
}
