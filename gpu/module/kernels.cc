/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/kernels.h"
#include "gpu/formats/format.h"
#include <string.h>

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

/* By the numbers of gpu/format.h. */
static const char *const formats[] = {
    "",
#define KV_FORMAT(name) #name,
#include "gpu/formats/list.h"
#undef KV_FORMAT
};

int kv_gpu_format_named(const char *name) {
  for (int i = KV_GPU_ROWS + 1; i < KV_GPU_FORMATS; i++)
    if (strcmp(name, formats[i]) == 0) return i;
  return -1;
}
