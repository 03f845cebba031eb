/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuing without a device, so that the engine can finish the layer: every
 * token is stored and seen, nothing was ever rewritten.
 */
#include "gpu/host/store.h"
#include <string.h>

static void make_plain(kv_store *s, kv_lane *m) {
  kv_err fault = m->fault;
  int step = m->step;
  size_t views = m->views.n, verbs = m->verbs.n;
  kv_lane_begin(m, &s->plan->needs, s->data);
  if (step) kv_lane_append(m, 0, step);
  m->fault = fault;
  m->views.n = views;
  m->verbs.n = verbs;
}

bool kv_gpu_lost(kv_store *s) {
  const char *why = s->fault.rc ? NULL : kv_gpu_failed(s->device);
  if (why)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s, layer %d, step %d: %s",
            s->device->name, s->data->layer, s->end, why);
  if (!s->fault.rc || s->lost) return s->lost;
  s->lost = true;
  for (int i = 0; i < s->lanes; i++) make_plain(s, &s->mirror[i]);
  return true;
}

void kv_gpu_lost_views(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t heads = (size_t)shape->n_heads, stride = (size_t)s->layer.stride;
  size_t d_v = (size_t)shape->d_v;
  for (int h = 0; h < shape->n_heads; h++) {
    kv_view *v = &s->view[h];
    v->runs = 1;
    v->entries = s->mirror[h / s->queries].n;
    v->run[0] = (kv_run){0, v->entries};
  }
  memset(s->out, 0, heads * d_v * sizeof *s->out);
  memset(s->lse, 0, heads * sizeof *s->lse);
  memset(s->both, 0, heads * (d_v + 1) * sizeof *s->both);
  if (s->s) memset(s->s, 0, heads * stride * sizeof *s->s);
}
