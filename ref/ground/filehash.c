/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashing a file: ref/ground/filehash.h.
 */
#include "ref/ground/filehash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/text.h"

kv_rc kv_file_digest(const char *path, kv_digest *out, kv_err *e) {
  char block[1 << 14];
  kv_sha256 h;
  ssize_t n;
  int f = open(path, O_RDONLY | O_CLOEXEC);
  if (f < 0) return kv_cannot(e, KV_INPUT, "open", path);
  kv_sha256_init(&h);
  while ((n = read(f, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) kv_sha256_add(&h, block, (size_t)n);
  *out = kv_sha256_end(&h);
  kv_rc rc = KV_OK;
  if (n < 0) rc = kv_cannot(e, KV_INPUT, "read", path);
  close(f);
  return rc;
}
