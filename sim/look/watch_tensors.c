/* SPDX-License-Identifier: Apache-2.0
 *
 * --stored and --outputs: safetensors of what attention read and answered.
 */
#include "sim/look/watch_part.h"

#include "traces/container/writer.h"
#include <string.h>

void kv_watch_copy_lane(void *self, int layer, const kv_lane *l) {
  kv_watch_files *w = self;
  if (!w->stored) return;
  lane_copy *c = &w->stored[kv_watch_layer(w, layer) * w->lanes + l->lane];
  size_t n = (size_t)l->n, d = (size_t)l->shape->d;
  size_t d_v = (size_t)l->shape->d_v;
  c->n = l->n;
  c->k = kv_zalloc(n * d + 1, sizeof *c->k);
  c->v = kv_zalloc(n * d_v + 1, sizeof *c->v);
  if (!c->k || !c->v) {
    w->no_memory = true;
    return;
  }
  for (int i = 0; i < l->n; i++) {
    kv_lane_key(l, i, c->k + (size_t)i * d);
    kv_lane_value(l, i, c->v + (size_t)i * d_v);
  }
}

static bool lanes_equal(const kv_watch_files *w, const lane_copy *c) {
  for (int i = 1; i < w->lanes; i++)
    if (c[i].n != c[0].n) return false;
  return true;
}

enum { DECLARE, APPEND };

/* Writes one layer: one tensor of all lanes if they have equal lengths, else a
 * tensor a lane. */
static kv_rc stored_side(const kv_watch_files *w, kv_st_writer *out, int i,
                         bool key, int pass, kv_err *e) {
  const lane_copy *c = w->stored + i * w->lanes;
  uint64_t width = (uint64_t)(key ? w->cell->shape.d : w->cell->shape.d_v);
  int layer = w->cell->trace->layer[i].data.layer;
  bool equal = lanes_equal(w, c);
  char name[80];
  kv_rc rc = KV_OK;
  for (int g = 0; !rc && g < w->lanes; g++) {
    uint64_t shape[3] = {(uint64_t)w->lanes, (uint64_t)c[g].n, width};
    snprintf(name, sizeof name, "layers.%d.heads.%d.%c", layer, g,
             key ? 'k' : 'v');
    if (equal)
      snprintf(name, sizeof name, "layers.%d.%c", layer, key ? 'k' : 'v');
    if (pass == APPEND)
      rc = kv_st_writer_append(out, (uint64_t)c[g].n * width * 4,
                               key ? c[g].k : c[g].v, e);
    else if (!equal || g == 0)
      rc = kv_st_writer_declare(out, name, KV_ST_F32, equal ? 3 : 2,
                                equal ? shape : shape + 1, e);
  }
  return rc;
}

static kv_rc stored_layers(const kv_watch_files *w, kv_st_writer *out, int pass,
                           kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < w->cell->trace->n_layers; i++) {
    rc = stored_side(w, out, i, true, pass, e);
    if (!rc) rc = stored_side(w, out, i, false, pass, e);
  }
  return rc;
}

static kv_rc output_layers(const kv_watch_files *w, kv_st_writer *out, int pass,
                           kv_err *e) {
  const kv_shape *s = &w->cell->shape;
  uint64_t shape[3] = {(uint64_t)s->n_heads, (uint64_t)w->steps,
                       (uint64_t)s->d_v};
  uint64_t floats = shape[0] * shape[1] * shape[2];
  char name[80];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < w->cell->trace->n_layers; i++) {
    snprintf(name, sizeof name, "layers.%d.o",
             w->cell->trace->layer[i].data.layer);
    rc = pass == DECLARE
             ? kv_st_writer_declare(out, name, KV_ST_F32, 3, shape, e)
             : kv_st_writer_append(out, floats * 4,
                                   w->outputs + (size_t)i * floats, e);
  }
  return rc;
}

typedef kv_rc layers_of(const kv_watch_files *w, kv_st_writer *out, int pass,
                        kv_err *e);

static kv_rc write_tensors(const kv_watch_files *w, const char *path,
                           layers_of *write, kv_err *e) {
  kv_st_writer *out = NULL;
  kv_rc rc = kv_st_writer_open(path, 0, &out, e);
  if (!rc) rc = write(w, out, DECLARE, e);
  if (!rc) rc = kv_st_writer_meta(out, "trace", w->cell->trace->name, e);
  if (!rc) rc = kv_st_writer_meta(out, "method", w->cell->result.spec, e);
  if (!rc) rc = write(w, out, APPEND, e);
  if (!rc) rc = kv_st_writer_finish(out, NULL, e);
  kv_st_writer_close(out);
  return rc;
}

kv_rc kv_watch_write_stored(const kv_watch_files *w, kv_err *e) {
  return write_tensors(w, w->paths.stored, stored_layers, e);
}

kv_rc kv_watch_write_outputs(const kv_watch_files *w, kv_err *e) {
  return write_tensors(w, w->paths.outputs, output_layers, e);
}
