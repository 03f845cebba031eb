/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashing a file: traces/filehash.h.
 */
#include "traces/filehash.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "traces/text.h"

kv_rc kv_file_digest(const char *path, kv_digest *out, kv_err *e) {
  char show[KV_SHOW], block[1 << 14];
  kv_sha256 h;
  size_t n;
  FILE *f = fopen(path, "rb");
  if (!f)
    return kv_fail(e, KV_INPUT, "%s cannot be opened: %s", kv_show(path, show),
                   strerror(errno));
  kv_sha256_init(&h);
  while ((n = fread(block, 1, sizeof block, f)) > 0)
    kv_sha256_add(&h, block, n);
  *out = kv_sha256_end(&h);
  kv_rc rc = KV_OK;
  if (ferror(f))
    rc = kv_fail(e, KV_INPUT, "%s cannot be read: %s", kv_show(path, show),
                 strerror(errno));
  fclose(f);
  return rc;
}
