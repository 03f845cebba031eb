/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing decisions: traces/decisions/decisions_write.h.
 */
#include "traces/decisions/decisions_write.h"

#include <stdio.h>

#include "traces/container/writer.h"

enum { VALUE = 32, NAME = 64 };

static kv_rc put_number(kv_st_writer *w, const char *key, const char *format,
                        int n, kv_err *e) {
  char text[VALUE];
  snprintf(text, sizeof text, format, n);
  return kv_st_writer_meta(w, key, text, e);
}

static const char *owner(int heads, const kv_shape *shape) {
  return heads == shape->n_kv_heads ? "kv" : "query";
}

static kv_rc put_kind(kv_st_writer *w, const kv_shape *shape,
                      const kv_decisions *d, kv_err *e) {
  const kv_lists *v = &d->layer[0].view;
  int main = d->stores ? d->stored_heads : v->heads;
  kv_rc rc = kv_st_writer_meta(w, "kind",
                               !d->views    ? "stored"
                               : !d->stores ? "view"
                                            : "stored+view",
                               e);
  if (!rc) rc = kv_st_writer_meta(w, "head", owner(main, shape), e);
  if (!rc && d->stores && d->views)
    rc = kv_st_writer_meta(w, "view_head", owner(v->heads, shape), e);
  int page = d->views ? v->page : d->layer[0].stored.page;
  if (!rc && page == 1) return kv_st_writer_meta(w, "unit", "token", e);
  return rc ? rc : put_number(w, "unit", "page:%d", page, e);
}

static kv_rc put_meta(kv_st_writer *w, const char *name, const kv_digest *trace,
                      const kv_shape *shape, const kv_decisions *d, kv_err *e) {
  char hex[65];
  kv_digest_hex(trace, hex);
  kv_rc rc = kv_st_writer_meta(w, "format", "kvdecisions", e);
  if (!rc) rc = kv_st_writer_meta(w, "version", "1", e);
  if (!rc) rc = kv_st_writer_meta(w, "name", name, e);
  if (!rc) rc = kv_st_writer_meta(w, "trace", hex, e);
  if (!rc) rc = put_number(w, "prompt_len", "%d", shape->prompt_len, e);
  if (!rc) rc = put_number(w, "reindex", "%d", d->reindex, e);
  if (!rc && d->block) rc = put_number(w, "block", "%d", d->block, e);
  return rc ? rc : put_kind(w, shape, d, e);
}

typedef struct vector {
  const char *what;
  kv_st_dtype type;
  uint64_t n, bytes;
  const void *data;
} vector;

enum { DECLARE, APPEND };

static kv_rc put_lists(kv_st_writer *w, int layer, const char *kind,
                       const kv_lists *l, int pass, kv_err *e) {
  uint64_t steps = (uint64_t)l->steps, lists = steps * (uint64_t)l->heads;
  uint64_t items = (uint64_t)l->start[lists];
  const vector all[] = {
      {"steps", KV_ST_I32, steps, steps * 4, l->step},
      {"indptr", KV_ST_I64, lists + 1, (lists + 1) * 8, l->start},
      {"positions", KV_ST_I32, items, items * 4, l->item}};
  char name[NAME];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < 3; i++) {
    snprintf(name, sizeof name, "layers.%d.%s%s", layer, kind, all[i].what);
    rc = pass == APPEND
             ? kv_st_writer_append(w, all[i].bytes, all[i].data, e)
             : kv_st_writer_declare(w, name, all[i].type, 1, &all[i].n, e);
  }
  return rc;
}

static kv_rc put_layers(kv_st_writer *w, const kv_decisions *d, int pass,
                        kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < d->layers; i++) {
    const kv_decided *l = &d->layer[i];
    if (d->stores) rc = put_lists(w, l->layer, "", &l->stored, pass, e);
    if (!rc && d->views)
      rc = put_lists(w, l->layer, d->stores ? "view." : "", &l->view, pass, e);
  }
  return rc;
}

kv_rc kv_decisions_write(const char *path, const char *name,
                         const kv_digest *trace, const kv_shape *shape,
                         const kv_decisions *d, kv_err *e) {
  kv_st_writer *w = NULL;
  kv_rc rc = kv_st_writer_open(path, 0, &w, e);
  if (!rc) rc = put_layers(w, d, DECLARE, e);
  if (!rc) rc = put_meta(w, name, trace, shape, d, e);
  if (!rc) rc = put_layers(w, d, APPEND, e);
  if (!rc) rc = kv_st_writer_finish(w, NULL, e);
  kv_st_writer_close(w);
  return rc;
}
