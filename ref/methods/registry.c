/* SPDX-License-Identifier: Apache-2.0
 *
 * The one list of methods, made from methods.mk, and which backend has which.
 */
#include "ref/backend/backend.h"
#include "ref/lane/compose.h"
#include <string.h>

#define DECLARED(name) extern const kv_method kv_method_##name;
#define ENTERED(name) &kv_method_##name,
#define LEFT_OUT(name)

#define KV_METHOD DECLARED
#define KV_METHOD_REF_ONLY DECLARED
#define KV_METHOD_OF_FILE DECLARED
#include "ref/methods/list.h"
#undef KV_METHOD
#undef KV_METHOD_REF_ONLY
#undef KV_METHOD_OF_FILE
DECLARED(replay)

#define KV_METHOD_OF_FILE LEFT_OUT
static const kv_method *const list[] = {
#define KV_METHOD ENTERED
#define KV_METHOD_REF_ONLY ENTERED
#include "ref/methods/list.h"
#undef KV_METHOD_REF_ONLY
    NULL};

static const kv_method *const twinned[] = {
#define KV_METHOD_REF_ONLY LEFT_OUT
#include "ref/methods/list.h"
#undef KV_METHOD
#undef KV_METHOD_OF_FILE
    NULL};

static const kv_method *const doors[] = {
#define KV_METHOD LEFT_OUT
#define KV_METHOD_OF_FILE ENTERED
#include "ref/methods/list.h"
    &kv_method_replay, NULL};

static const kv_method *at(const kv_method *const *all, int count, int index) {
  return index >= 0 && index < count ? all[index] : NULL;
}

const kv_method *kv_method_at(int index) {
  return at(list, (int)(sizeof list / sizeof *list) - 1, index);
}

const kv_method *kv_method_door_at(int index) {
  return at(doors, (int)(sizeof doors / sizeof *doors) - 1, index);
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

bool kv_backend_has(const kv_backend *b, const kv_method *m) {
  return b == &kv_backend_ref || !kv_method_ref_only(m);
}

const kv_method *kv_method_named(const char *name) {
  for (int i = 0; list[i]; i++)
    if (strcmp(list[i]->name, name) == 0) return list[i];
  for (int i = 0; doors[i]; i++)
    if (strcmp(doors[i]->name, name) == 0) return doors[i];
  return NULL;
}
