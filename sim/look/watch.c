/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that describe one cell: contract in sim/look/watch.h. Selections
 * and views are written here as JSON lines; stored rows and outputs in
 * watch_tensors.c.
 */
#include "sim/look/watch_part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int kv_watch_layer(const kv_watch_files *w, int layer) {
  int i = 0;
  while (w->cell->trace->layer[i].data.layer != layer) i++;
  return i;
}

/* --- JSON lines --------------------------------------------------------- */

static kv_rc cannot(const text_file *t, kv_err *e) {
  return kv_fail(e, KV_RESOURCE, "%s cannot be written: %s", t->file.path,
                 strerror(errno));
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
    size_t head = (size_t)kv_watch_layer(w, layer) * heads +
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
                        .finished = kv_watch_copy_lane};
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
  if (!rc && w->paths.stored) rc = kv_watch_write_stored(w, e);
  if (!rc && w->paths.outputs) rc = kv_watch_write_outputs(w, e);
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
