/* SPDX-License-Identifier: Apache-2.0
 *
 * The one list of methods, made from methods.mk, and what follows from a
 * method's needs alone.
 */
#include "ref/lane/compose.h"
#include <assert.h>
#include <string.h>

#define KV_METHOD(name) extern const kv_method kv_method_##name;
#define KV_METHOD_REF_ONLY(name) KV_METHOD(name)
#include "ref/methods/list.h"
#undef KV_METHOD
#undef KV_METHOD_REF_ONLY

#define KV_METHOD_REF_ONLY(name) KV_METHOD(name)
static const kv_method *const list[] = {
#define KV_METHOD(name) &kv_method_##name,
#include "ref/methods/list.h"
#undef KV_METHOD
    NULL};
#undef KV_METHOD_REF_ONLY

#define KV_METHOD_REF_ONLY(name)
static const kv_method *const twinned[] = {
#define KV_METHOD(name) &kv_method_##name,
#include "ref/methods/list.h"
#undef KV_METHOD
    NULL};
#undef KV_METHOD_REF_ONLY

extern const kv_method kv_method_replay;
static const kv_method *const doors[] = {&kv_method_replay, NULL};

static const kv_method *at(const kv_method *const *all, int count, int index) {
  return index >= 0 && index < count ? all[index] : NULL;
}

const kv_method *kv_method_at(int index) {
  return at(list, (int)(sizeof list / sizeof *list) - 1, index);
}

const kv_method *kv_method_door_at(int index) {
  return at(doors, (int)(sizeof doors / sizeof *doors) - 1, index);
}

const kv_param *kv_method_file(const kv_method *m) {
  for (const kv_param *p = m->params; p && p->name; p++)
    if (p->kind == KV_FILE) return p;
  return NULL;
}

bool kv_file_is_none(const kv_method *m, const kv_file *f) {
  return kv_method_file(m)->or_none && strcmp(f->path, "none") == 0;
}

bool kv_file_optional(const kv_method *m) {
  const kv_param *p = kv_method_file(m);
  return p && p->fallback && strcmp(p->fallback, KV_FILE_OPTIONAL) == 0;
}

static bool ref_only(const kv_method *m) {
  for (int i = 0; twinned[i]; i++)
    if (twinned[i] == m) return false;
  for (int i = 0; doors[i]; i++)
    if (doors[i] == m) return false;
  return true;
}

bool kv_method_ref_only(const kv_method *m) {
  const kv_method *part[KV_MOST_PARTS];
  size_t offset[KV_MOST_PARTS];
  bool only = false;
  for (int i = kv_parts_of(m, part, offset) - 1; i >= 0; i--)
    only |= ref_only(part[i]);
  return only;
}

const kv_method *kv_method_named(const char *name) {
  for (int i = 0; list[i]; i++)
    if (strcmp(list[i]->name, name) == 0) return list[i];
  for (int i = 0; doors[i]; i++)
    if (strcmp(doors[i]->name, name) == 0) return doors[i];
  return NULL;
}

bool kv_settling_due(const kv_needs *n, const kv_shape *s, int step) {
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
