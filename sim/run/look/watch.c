/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that describe one cell: contract in sim/run/look/watch.h.
 * Selections and views are written as JSON lines, stored rows and outputs as
 * tensors. One thread fills them through the callbacks of a replay.
 */
#include "sim/run/look/watch.h"

#include "ref/ground/text.h"
#include "traces/container/newfile.h"
#include "traces/container/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of JSON lines while it is written. */
typedef struct text_file {
  FILE *out; /* on a duplicate descriptor of `file`; NULL: not requested */
  kv_newfile file;
} text_file;

/* What attention reads of one lane after the last step. */
typedef struct lane_copy {
  int n;
  float *k, *v; /* [n][d], [n][d_v] */
} lane_copy;

struct kv_watch_files {
  kv_watch_paths paths; /* NULL: not requested */
  const kv_cell *cell;
  kv_watch watch;              /* the callbacks that fill what follows */
  text_file selections, views; /* written during the replay */
  int lanes, steps;            /* lanes of a layer; decode steps */
  lane_copy *stored;           /* [layers][lanes] */
  float *outputs;              /* [layers][n_heads][steps][d_v] */
  bool no_memory; /* a copy is missing: the files end in KV_RESOURCE */
};

static int watch_layer(const kv_watch_files *w, int layer);

/* A callback: copies what attention reads of the lane after the last step. */
static void watch_copy_lane(void *self, int layer, const kv_lane *l) {
  kv_watch_files *w = self;
  if (!w->stored) return;
  lane_copy *c = &w->stored[watch_layer(w, layer) * w->lanes + l->lane];
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

/* Writes one layer: one tensor of all lanes if their lengths are equal, else
 * one for each lane. */
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

/* After the replay, writes all lanes, or all outputs, as safetensors to
 * paths.stored or paths.outputs, in shards if there is more than KV_ST_SHARD
 * bytes. KV_RESOURCE: memory, or the file cannot be written; then it does not
 * appear, and an existing one stays. */
static kv_rc watch_write_stored(const kv_watch_files *w, kv_err *e) {
  return write_tensors(w, w->paths.stored, stored_layers, e);
}

static kv_rc watch_write_outputs(const kv_watch_files *w, kv_err *e) {
  return write_tensors(w, w->paths.outputs, output_layers, e);
}

/* Index of a recorded layer by its number in the model. */
static int watch_layer(const kv_watch_files *w, int layer) {
  int i = 0;
  while (w->cell->trace->layer[i].data.layer != layer) i++;
  return i;
}

/* --- JSON lines --------------------------------------------------------- */

static kv_rc cannot(const text_file *t, kv_err *e) {
  return kv_cannot(e, KV_RESOURCE, "write", t->file.path);
}

static kv_rc text_open(text_file *t, const char *path, kv_err *e) {
  if (!path) return KV_OK;
  kv_rc rc = kv_newfile_open(path, &t->file, e);
  if (rc) return rc;
  int fd = dup(t->file.fd);
  t->out = fd < 0 ? NULL : fdopen(fd, "w");
  if (t->out) return KV_OK;
  rc = cannot(t, e);
  if (fd >= 0) close(fd);
  return rc;
}

static kv_rc text_finish(text_file *t, kv_err *e) {
  if (!t->out) return KV_OK;
  bool bad = fflush(t->out) != 0 || ferror(t->out);
  bad = fclose(t->out) != 0 || bad;
  t->out = NULL;
  if (bad) return cannot(t, e);
  kv_rc rc = kv_newfile_flush(&t->file, e);
  return rc ? rc : kv_newfile_publish(1, &t->file, e);
}

static void text_close(text_file *t) {
  if (t->out) fclose(t->out);
  kv_newfile_discard(&t->file);
}

static void line_begin(FILE *f, const kv_watch_files *w, int layer, int head,
                       int step) {
  fprintf(f,
          "{\"method\": \"%s\", \"layer\": %d, \"head\": %d, \"step\": %d, "
          "\"positions\": [",
          w->cell->spec.method->name, layer, head, step);
}

static void write_runs(FILE *f, const uint32_t *value, const kv_view *v) {
  const char *comma = "";
  for (int r = 0; r < v->runs; r++)
    for (int i = 0; i < v->run[r].count; i++) {
      fprintf(f, "%s%u", comma, value[v->run[r].first + i]);
      comma = ", ";
    }
}

static void write_line(FILE *f, const kv_watch_files *w, int layer, int head,
                       int step, const kv_lane *l, const kv_view *v) {
  line_begin(f, w, layer, head, step);
  write_runs(f, l->id, v);
  fputs("], \"weights\": [", f);
  write_runs(f, l->weight, v);
  fputs("]}\n", f);
}

static void compressed(void *self, int layer, int step, const kv_lane *lane) {
  kv_watch_files *w = self;
  if (!w->selections.out) return;
  kv_run whole = {0, lane->n};
  kv_view all = {.runs = 1, .entries = lane->n, .run = &whole};
  write_line(w->selections.out, w, layer, lane->lane, step, lane, &all);
}

static void keep_output(kv_watch_files *w, int layer, int step,
                        const kv_seen *seen) {
  const kv_shape *s = &w->cell->shape;
  size_t d_v = (size_t)s->d_v, steps = (size_t)w->steps;
  size_t heads = (size_t)s->n_heads;
  for (int h = 0; h < seen->queries; h++) {
    size_t head = (size_t)watch_layer(w, layer) * heads +
                  (size_t)(seen->lane->first_head + h);
    size_t row = head * steps + (size_t)(step - s->prompt_len - 1);
    memcpy(w->outputs + row * d_v, seen->out + (size_t)h * d_v,
           d_v * sizeof *w->outputs);
  }
}

static void saw(void *self, int layer, int step, const kv_seen *seen) {
  kv_watch_files *w = self;
  for (int h = 0; w->views.out && h < seen->queries; h++)
    write_line(w->views.out, w, layer, seen->lane->first_head + h, step,
               seen->lane, &seen->view[h]);
  if (w->outputs) keep_output(w, layer, step, seen);
}

/* --- life --------------------------------------------------------------- */

kv_rc kv_watch_open(const kv_watch_paths *paths, const kv_cell *cell,
                    kv_watch_files **out, const kv_watch **watch, kv_err *e) {
  kv_watch_files *w = kv_zalloc(1, sizeof *w);
  const kv_shape *s = &cell->shape;
  size_t layers = (size_t)cell->trace->n_layers;
  if (!w) return kv_no_memory(e, "files of a cell", sizeof *w);
  *out = w;
  w->paths = *paths;
  w->cell = cell;
  w->watch = (kv_watch){.self = w,
                        .compressed = compressed,
                        .seen = saw,
                        .finished = watch_copy_lane};
  w->lanes = kv_lane_count(&cell->plan.needs, s);
  w->steps = s->n_tokens - s->prompt_len;
  *watch = &w->watch;
  size_t floats =
      layers * (size_t)s->n_heads * (size_t)w->steps * (size_t)s->d_v;
  if (paths->stored)
    w->stored = kv_zalloc(layers * (size_t)w->lanes, sizeof *w->stored);
  if (paths->outputs) w->outputs = kv_zalloc(floats + 1, sizeof *w->outputs);
  if ((paths->stored && !w->stored) || (paths->outputs && !w->outputs))
    return kv_no_memory(e, "files of a cell", floats * sizeof *w->outputs);
  kv_rc rc = text_open(&w->selections, paths->selections, e);
  return rc ? rc : text_open(&w->views, paths->views, e);
}

kv_rc kv_watch_finish(kv_watch_files *w, kv_err *e) {
  if (w->no_memory) return kv_no_memory(e, "--stored", sizeof *w->stored);
  kv_rc rc = text_finish(&w->selections, e);
  if (!rc) rc = text_finish(&w->views, e);
  if (!rc && w->paths.stored) rc = watch_write_stored(w, e);
  if (!rc && w->paths.outputs) rc = watch_write_outputs(w, e);
  return rc;
}

void kv_watch_close(kv_watch_files *w) {
  if (!w) return;
  text_close(&w->selections);
  text_close(&w->views);
  int copies = w->stored ? w->lanes * w->cell->trace->n_layers : 0;
  for (int i = 0; i < copies; i++) {
    free(w->stored[i].k);
    free(w->stored[i].v);
  }
  free(w->stored);
  free(w->outputs);
  free(w);
}
