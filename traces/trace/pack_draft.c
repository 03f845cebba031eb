/* SPDX-License-Identifier: Apache-2.0
 *
 * Would the result be a trace? Makes it without rows, as a file in memory
 * (memfd) whose rows are a hole and take no memory. kv_trace_open checks this
 * file as it will check the result, so errors are reported before hours of
 * writing, not after.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/text/json.h"
#include "traces/trace/pack_own.h"

/* The header's JSON, for free(); *bytes: of all data. */
static char *header(const kv_pack *p, uint64_t *bytes) {
  *bytes = 0;
  kv_json_begin();
  json_t *root = json_object();
  json_object_set(root, "__metadata__", p->meta);
  for (int i = 0; i < p->n; i++) {
    const kv_pack_tensor *x = &p->tensor[i];
    json_t *shape = json_array();
    for (int r = 0; r < x->rank; r++)
      json_array_append_new(shape, json_integer((json_int_t)x->shape[r]));
    json_object_set_new(root, x->name,
                        json_pack("{s:s,s:o,s:[I,I]}", "dtype",
                                  kv_st_dtype_name(x->dtype), "shape", shape,
                                  "data_offsets", (json_int_t)*bytes,
                                  (json_int_t)(*bytes + x->bytes)));
    *bytes += x->bytes;
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (kv_json_end()) return text;
  free(text);
  return NULL;
}

static bool put(int fd, uint64_t at, uint64_t bytes, const void *data) {
  return pwrite(fd, data, (size_t)bytes, (off_t)at) == (ssize_t)bytes;
}

static kv_rc fill(const kv_pack *p, int fd, kv_err *e) {
  uint64_t bytes, at;
  char a[KV_SHOW], *text = header(p, &bytes);
  if (!text) return kv_no_memory(e, "the header", 0);
  uint64_t n = strlen(text);
  bool good = put(fd, 0, sizeof n, &n) && put(fd, sizeof n, n, text);
  free(text);
  at = sizeof n + n;
  good = good && ftruncate(fd, (off_t)(at + bytes)) == 0;
  for (int i = 0; good && i < p->n; i++) {
    const kv_pack_tensor *x = &p->tensor[i];
    if (x->data) good = put(fd, at, x->bytes, x->data);
    at += x->bytes;
  }
  if (good) return KV_OK;
  return kv_fail(e, KV_RESOURCE,
                 "%s: cannot be tested in memory: %s; nothing was written",
                 kv_show(p->folder, a), strerror(errno));
}

/* Replaces the draft's name, which means nothing to a user, by trace.json's. */
static kv_rc renamed(const kv_pack *p, const char *path, kv_err *e) {
  char a[KV_SHOW], text[sizeof e->text];
  size_t n = strlen(path);
  if (!e || e->rc != KV_INPUT || strncmp(e->text, path, n) != 0)
    return e ? e->rc : KV_INPUT;
  snprintf(text, sizeof text, "%s", e->text + n);
  return kv_fail(e, KV_INPUT, "%s%s", kv_show(p->json.path, a), text);
}

kv_rc kv_pack_try(const kv_pack *p, kv_err *e) {
  char path[40];
  kv_trace *t = NULL;
  int fd = memfd_create("kvtrace-pack", MFD_CLOEXEC);
  if (fd < 0)
    return kv_fail(e, KV_RESOURCE, "cannot make a file in memory: %s",
                   strerror(errno));
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  kv_rc rc = fill(p, fd, e);
  if (!rc) {
    rc = kv_trace_open(path, &t, e);
    if (rc == KV_INPUT) rc = renamed(p, path, e);
  }
  kv_trace_close(t);
  close(fd);
  return rc;
}
