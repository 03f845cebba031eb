/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from a method's table and needs alone: the file that it reads,
 * when compression is due, and the workspace of its hooks.
 */
#include "ref/lane/method.h"
#include <assert.h>
#include <string.h>

const kv_param *kv_method_file(const kv_method *m, int i) {
  for (const kv_param *p = m->params; p && p->name; p++)
    if (p->kind == KV_FILE && i-- == 0) return p;
  return NULL;
}

int kv_method_tensors(const kv_method *m) {
  const kv_param *p;
  int n = 0;
  for (int i = 0; (p = kv_method_file(m, i)); i++)
    n += kv_tensors_asked(p->reads->tensors);
  return n;
}

bool kv_file_is_none(const kv_param *p, const kv_file *f) {
  if (strcmp(f->path, "none") == 0) return p->or_none;
  return !*f->path && kv_file_optional(p);
}

bool kv_file_optional(const kv_param *p) {
  return p->fallback && strcmp(p->fallback, KV_FILE_OPTIONAL) == 0;
}

bool kv_compression_due(const kv_needs *n, const kv_shape *s, int step) {
  int decoded = step - s->prompt_len;
  if (decoded < 0) return n->block != 0;
  if (decoded == 0) return true;
  return n->every != 0 && (decoded - n->phase) % n->every == 0;
}

void *kv_work_take(kv_work *w, size_t n) {
  if (w->take) return w->take(w, n);
  size_t bytes = n <= w->size ? (n + 63) / 64 * 64 : SIZE_MAX;
  assert(bytes <= w->size - w->used && "needs.work covers what hooks take");
  void *p = w->base + w->used;
  w->used += bytes;
  return p;
}

void kv_view_add(kv_view *v, int first, int count) {
  if (count <= 0) return;
  v->entries += count;
  if (v->runs > 0) {
    kv_run *last = &v->run[v->runs - 1];
    assert(first >= last->first + last->count && "views ascend");
    if (first == last->first + last->count) {
      last->count += count;
      return;
    }
  }
  v->run[v->runs++] = (kv_run){first, count};
}

void kv_view_mask(kv_view *v, int n, const bool *in) {
  const bool *at = in, *end = in + n;
  while ((at = memchr(at, true, (size_t)(end - at))) != NULL) {
    const bool *first = at;
    while (at < end && *at) at++;
    kv_view_add(v, (int)(first - in), (int)(at - first));
  }
}
