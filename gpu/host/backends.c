/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of gpu/host/backends.h.
 */
#include "gpu/host/backends.h"
#include "gpu/shared/device.h"
#include <string.h>

static const char *no_emu(void) {
  return kv_device_emu() ? NULL
                         : "this kvreplay was built without the executor; "
                           "configure --with-emu builds it";
}

static const char *no_cuda(void) {
  const char *why = NULL;
  return kv_device_cuda(&why) ? NULL : why;
}

static const char *no_reason(void) { return NULL; }

static const struct {
  const kv_backend *backend;
  const char *(*missing)(void); /* NULL: it can be used */
} list[] = {{&kv_backend_ref, no_reason},
            {&kv_backend_emu, no_emu},
            {&kv_backend_cuda, no_cuda}};
enum { N_BACKENDS = sizeof list / sizeof *list };

const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  for (int i = 0; i < N_BACKENDS; i++) {
    if (strcmp(name, list[i].backend->name) != 0) continue;
    const char *why = list[i].missing();
    if (!why) return list[i].backend;
    kv_fail(e, KV_RESOURCE, "backend %s cannot be used here: %s", name, why);
    return NULL;
  }
  kv_fail(e, KV_USAGE, "no backend is called '%s'; choose ref, emu or cuda",
          name);
  return NULL;
}

int kv_backends_default(const kv_backend **out, int room) {
  int n = 0;
  for (int i = 0; i < N_BACKENDS && n < room; i++)
    if (!list[i].missing()) out[n++] = list[i].backend;
  return n;
}
