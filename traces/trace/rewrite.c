/* SPDX-License-Identifier: Apache-2.0
 *
 * One trace from another: traces/trace/rewrite.h.
 */
#include "traces/trace/rewrite.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/ground/text.h"
#include "traces/container/safetensors.h"

enum { PIECE = 1 << 20 }; /* bytes between two checks of stop */

kv_rc kv_rewrite_apart(const kv_trace *from, const char *doing,
                       const char *path, kv_err *e) {
  struct stat there;
  char a[KV_SHOW];
  const kv_st *files = kv_trace_files(from);
  const char *tail = strstr(path, ".safetensors");
  size_t n = tail ? (size_t)(tail - path) : strlen(path);
  bool same = strncmp(path, from->path, n) == 0 &&
              strncmp(from->path + n, ".safetensors", 12) == 0;
  for (int f = 0; !same && stat(path, &there) == 0 && f < kv_st_files(files);
       f++) {
    const struct stat *x = kv_st_file_stat(files, f);
    same = x->st_dev == there.st_dev && x->st_ino == there.st_ino;
  }
  if (!same) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s is the trace being %s; give the result another name",
                 kv_show(path, a), doing);
}

kv_rc kv_rewrite_meta(const kv_rewrite *w, kv_err *e) {
  const kv_st *files = kv_trace_files(w->from);
  kv_rc rc = KV_OK;
  for (size_t i = 0; !rc && i < kv_st_meta_count(files); i++) {
    const char *key = kv_st_meta_key(files, i);
    rc = kv_st_writer_meta(w->out, key, kv_st_meta(files, key), e);
  }
  return rc;
}

kv_rc kv_rewrite_bytes(const kv_rewrite *w, uint64_t bytes, const void *data,
                       kv_err *e) {
  const char *from = data;
  kv_rc rc = KV_OK;
  for (uint64_t at = 0; !rc && at < bytes; at += PIECE) {
    uint64_t n = bytes - at < PIECE ? bytes - at : PIECE;
    rc = kv_st_writer_append(w->out, n, from + at, e);
    if (!rc) rc = kv_rewrite_go_on(w->stop, e);
  }
  return rc;
}

kv_rc kv_rewrite_go_on(const volatile sig_atomic_t *stop, kv_err *e) {
  if (!stop || !*stop) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "interrupted; nothing was written");
}
