/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/kernels.h"

#define KV_METHOD(name) extern "C" const kv_gpu_hooks kv_gpu_##name;
#include "gpu/methods/list.h"
#undef KV_METHOD

#define KV_METHOD(name) {#name, &kv_gpu_##name},
static const struct twin {
  const char *identifier;
  const kv_gpu_hooks *hooks;
} twins[] = {
#include "gpu/methods/list.h"
};
#undef KV_METHOD

/* A name spells with '-' what an identifier spells with '_'. */
static bool names(const char *method, const char *identifier) {
  for (; *identifier; method++, identifier++)
    if (*method != (*identifier == '_' ? '-' : *identifier)) return false;
  return !*method;
}

const kv_gpu_hooks *kv_gpu_hooks_named(const char *method) {
  for (const twin &t : twins)
    if (names(method, t.identifier)) return t.hooks;
  return nullptr;
}
