/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming the code of a method: contract in sim/ask/code.h.
 */
#include "sim/ask/code.h"

#include "ref/ground/sha256.h"
#include "sim/ask/door.h"
#include <stdio.h>
#include <string.h>

void kv_code(const kv_method *m, int n, const kv_digest *file, char out[65]) {
  const char *plugin = kv_door_code(m);
  char hex[65], text[96];
  kv_sha256 h;
  if (n == 0) {
    snprintf(out, 65, "%s", plugin ? plugin : "");
    return;
  }
  if (plugin)
    snprintf(text, sizeof text, "plugin %s\n", plugin);
  else
    snprintf(text, sizeof text, "revision %d\n", m->revision);
  kv_sha256_init(&h);
  kv_sha256_add(&h, text, strlen(text));
  for (int i = 0; i < n; i++) {
    kv_digest_hex(&file[i], hex);
    snprintf(text, sizeof text, "file %s\n", hex);
    kv_sha256_add(&h, text, strlen(text));
  }
  kv_digest all = kv_sha256_end(&h);
  bool alone = n == 1 && !plugin && m->revision == 1;
  kv_digest_hex(alone ? file : &all, out);
}
