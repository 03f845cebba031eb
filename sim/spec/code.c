/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming the code of a method: contract in sim/spec/code.h.
 */
#include "sim/spec/code.h"

#include "ref/ground/sha256.h"
#include "sim/spec/door.h"
#include <stdio.h>
#include <string.h>

void kv_code(const kv_method *m, const kv_digest *file, char out[65]) {
  const char *plugin = kv_door_code(m);
  char hex[65], text[192];
  if (!file) {
    snprintf(out, 65, "%s", plugin ? plugin : "");
    return;
  }
  kv_digest_hex(file, hex);
  if (plugin)
    snprintf(text, sizeof text, "plugin %s\nfile %s\n", plugin, hex);
  else
    snprintf(text, sizeof text, "revision %d\nfile %s\n", m->revision, hex);
  if (plugin || m->revision != 1) {
    kv_sha256 h;
    kv_sha256_init(&h);
    kv_sha256_add(&h, text, strlen(text));
    kv_digest both = kv_sha256_end(&h);
    kv_digest_hex(&both, hex);
  }
  memcpy(out, hex, sizeof hex);
}
