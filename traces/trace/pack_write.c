/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a folder of chunks as a trace (kv_pack_write of traces/trace/pack.h).
 * An engine has [tokens][heads][d] and a trace [heads][tokens][d]: the files of
 * a layer are read once, from end to end, and their rows are reordered in
 * memory, which is written when the layer is complete.
 */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/container/writer.h"
#include "traces/trace/pack_own.h"

enum { PARTS = 4 };
static const char part_name[] = "qkvo";

typedef struct job {
  const kv_pack *p;
  const kv_pack_how *how;
  const kv_chunks *now; /* the file being read */
  const kv_chunks **of; /* [n_kv_heads] the file that a KV head is from */
  char *rows[PARTS];    /* q, k, v, o of a layer: [heads][tokens][d] */
} job;

static kv_rc go_on(const job *w, kv_err *e) {
  if (!w->how->stop || !*w->how->stop) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "interrupted; nothing was written");
}

static size_t row_size(const kv_pack *p, int part) {
  int d = part < 2 ? p->file->d : p->file->d_v;
  return (size_t)d * kv_st_dtype_bits(p->file->dtype) / 8;
}

/* Does a part have rows of query heads? If not, of KV heads. */
static bool is_query(int part) { return part == 0 || part == 3; }

static int all_heads(const kv_pack *p, int part) {
  return is_query(part) ? p->n_heads : p->n_kv_heads;
}

static kv_rc unequal(const job *w, char part, int g, int token, kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_INPUT,
                 "%s and %s differ in %c of layer %d, KV head %d, token %d, "
                 "which both have",
                 kv_show(w->now->path, a), kv_show(w->of[g]->path, b), part,
                 w->now->layer, g, token);
}

/* Tokens first to first + n - 1 of one head; row i is at rows + i * step. */
static kv_rc put_head(const job *w, int part, int head, int first, int n,
                      const char *rows, size_t step, kv_err *e) {
  size_t size = row_size(w->p, part);
  char *to = w->rows[part] +
             ((size_t)head * (size_t)w->p->facts.tokens + (size_t)first) * size;
  if (is_query(part) || w->of[head] == w->now) {
    for (int i = 0; i < n; i++, to += size, rows += step)
      memcpy(to, rows, size);
    return KV_OK;
  }
  for (int i = 0; i < n; i++, to += size, rows += step)
    if (memcmp(to, rows, size) != 0)
      return unequal(w, part_name[part], head, first + i, e);
  return KV_OK;
}

/* Checks the n rows [heads][d] of tokens from `first` on. */
static kv_rc check_finite(const job *w, int part, int first, int n, int heads,
                          const void *rows, kv_err *e) {
  const kv_chunks *x = w->now;
  kv_dtype type = x->dtype == KV_ST_F16    ? KV_F16
                  : x->dtype == KV_ST_BF16 ? KV_BF16
                                           : KV_F32;
  size_t d = row_size(w->p, part) / kv_dtype_size(type);
  size_t row = d * (size_t)heads, all = row * (size_t)n;
  size_t at = kv_first_not_finite(type, all, rows);
  int head = is_query(part) ? x->head : x->kv_head;
  char a[KV_SHOW];
  if (at == all) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: layer %d, head %d, token %d: %c holds NaN or Inf",
                 kv_show(x->path, a), x->layer, head + (int)(at % row / d),
                 first + (int)(at / row), part_name[part]);
}

static kv_rc put_rows(void *self, char name, int first, int n, const void *rows,
                      kv_err *e) {
  const job *w = self;
  const kv_chunks *x = w->now;
  int part = (int)(strchr(part_name, name) - part_name);
  int head = is_query(part) ? x->head : x->kv_head;
  int heads = is_query(part) ? x->heads : x->kv_heads;
  size_t size = row_size(w->p, part), step = size * (size_t)heads;
  kv_rc rc = go_on(w, e);
  if (!rc) rc = check_finite(w, part, first, n, heads, rows, e);
  for (int h = 0; !rc && h < heads; h++)
    rc = put_head(w, part, head + h, first, n,
                  (const char *)rows + (size_t)h * size, step, e);
  if (w->how->tick) w->how->tick(w->how->self, (int64_t)step * n);
  return rc;
}

static kv_rc gather(job *w, int l, kv_err *e) {
  const kv_pack *p = w->p;
  kv_rc rc = KV_OK;
  for (int g = 0; g < p->n_kv_heads; g++) w->of[g] = NULL;
  for (int i = p->first[l]; !rc && i < p->first[l + 1]; i++) {
    w->now = &p->file[i];
    for (int g = w->now->kv_head; g < w->now->kv_head + w->now->kv_heads; g++)
      if (!w->of[g]) w->of[g] = w->now;
    rc = kv_chunks_read(w->now, p->facts.tokens, put_rows, w, e);
  }
  return rc;
}

static kv_rc declare(const kv_pack *p, kv_st_writer *out, kv_err *e) {
  const char *key;
  json_t *text;
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < p->n; i++) {
    const kv_pack_tensor *x = &p->tensor[i];
    rc = kv_st_writer_declare(out, x->name, x->dtype, x->rank, x->shape, e);
  }
  json_object_foreach(p->meta, key, text) {
    if (!rc) rc = kv_st_writer_meta(out, key, json_string_value(text), e);
  }
  return rc;
}

/* Appends tensors in order. A layer's rows are gathered before its q. */
static kv_rc append(job *w, kv_st_writer *out, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0, l = 0; !rc && i < w->p->n; i++) {
    const kv_pack_tensor *x = &w->p->tensor[i];
    const char part = x->name[strlen(x->name) - 1];
    if (!x->data && part == 'q') rc = gather(w, l++, e);
    if (!rc)
      rc = kv_st_writer_append(
          out, x->bytes,
          x->data ? x->data : w->rows[strchr(part_name, part) - part_name], e);
    if (!rc) rc = go_on(w, e);
  }
  return rc;
}

static kv_rc take_memory(job *w, kv_err *e) {
  const kv_pack *p = w->p;
  size_t tokens = (size_t)p->facts.tokens, bytes = 0;
  bool o = false;
  for (int i = 0; i < p->facts.files; i++) o = o || p->file[i].o;
  w->of = calloc((size_t)p->n_kv_heads, sizeof *w->of);
  bool good = w->of;
  for (int part = 0; part < PARTS; part++) {
    if (part_name[part] == 'o' && !o) continue;
    size_t n = (size_t)all_heads(p, part) * tokens * row_size(p, part);
    w->rows[part] = kv_zalloc(n, 1);
    good = good && w->rows[part];
    bytes += n;
  }
  return good ? KV_OK : kv_no_memory(e, "the rows of a layer", bytes);
}

kv_rc kv_pack_write(const kv_pack *p, const kv_pack_how *how, const char *path,
                    kv_err *e) {
  job w = {.p = p, .how = how};
  kv_st_writer *out = NULL;
  kv_rc rc = take_memory(&w, e);
  if (!rc) rc = kv_st_writer_open(path, 0, &out, e);
  if (!rc) rc = declare(p, out, e);
  if (!rc) rc = append(&w, out, e);
  if (!rc) rc = kv_st_writer_finish(out, NULL, e);
  kv_st_writer_close(out);
  for (int part = 0; part < PARTS; part++) free(w.rows[part]);
  free(w.of);
  return rc;
}
