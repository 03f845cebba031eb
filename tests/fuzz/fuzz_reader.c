/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: whatever the bytes, opening them as a trace gives a trace
 * or a sentence, never a crash, a leak or a read outside the file. The first
 * byte chooses: `{` the bytes are the index of a sharded set; `h` the rest is
 * a header, in front of 4,096 bytes of data; else they are the file.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "traces/trace/trace.h"

enum { DATA = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void put(int fd, const void *bytes, size_t n) {
  if (write(fd, bytes, n) != (ssize_t)n) abort();
}

/* Everything that a program does with a trace before it replays it. */
static void use(const char *path) {
  kv_err e = {0};
  kv_trace *t;
  kv_digest d;
  kv_rc rc = kv_trace_open(path, &t, &e);
  if (rc != KV_OK) {
    if (t || !e.text[0] || strpbrk(e.text, "\n\r") || rc != e.rc) abort();
    return;
  }
  for (int i = 0; i < t->n_layers; i++) {
    kv_trace_scan_layer(t, i, &e);
    kv_trace_scan_output(t, i, &e);
    kv_trace_release_layer(t, i);
  }
  if (kv_trace_identity(t, &d, &e) != KV_OK) abort();
  kv_trace_close(t);
}

static void use_file(const uint8_t *bytes, size_t n) {
  char path[64];
  int fd = memfd_create("trace", MFD_CLOEXEC);
  if (fd < 0) abort();
  if (n && bytes[0] == 'h') {
    static const uint8_t zeros[DATA];
    uint64_t length = n - 1;
    put(fd, &length, sizeof length);
    put(fd, bytes + 1, n - 1);
    put(fd, zeros, DATA);
  } else {
    put(fd, bytes, n);
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  use(path);
  close(fd);
}

static void use_index(const uint8_t *bytes, size_t n) {
  char folder[] = "/tmp/kv_fuzz_XXXXXX", path[64];
  if (!mkdtemp(folder)) abort();
  snprintf(path, sizeof path, "%s/x.safetensors.index.json", folder);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
  use(path);
  unlink(path);
  rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  if (n && bytes[0] == '{') {
    use_index(bytes, n);
  } else {
    use_file(bytes, n);
  }
  return 0;
}
