/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: whatever a folder of chunks holds, kvtrace pack refuses it
 * with a sentence and leaves nothing, or makes a trace that opens. The first
 * byte chooses: `{` the bytes are trace.json, beside a good file of chunks; `c`
 * the rest is the second of two ranks' files, beside a good first; else the
 * rest is chunks behind a good first line.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traces/trace/pack.h"
#include "traces/trace/trace.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* In memory where that is possible: the writer waits for the disk. */
static char folder[64] = "/dev/shm/kv_fuzz_XXXXXX";
static char json[80], one[80], two[80], out[80];

static const char good_json[] =
    "{\"n_layers\":1,\"n_heads\":4,\"n_kv_heads\":1,\"prompt_len\":1,"
    "\"attn.scale\":1}";
static const char first_line[] =
    "{\"layer\":0,\"dtype\":\"F16\",\"heads\":2,\"kv_heads\":1,"
    "\"head_dim\":2}\n";
static const char second_line[] =
    "{\"layer\":0,\"dtype\":\"F16\",\"head\":2,\"heads\":2,\"kv_heads\":1,"
    "\"head_dim\":2}\n";
enum { TOKENS = 3, ROW = (2 + 1 + 1) * 2 * 2 }; /* bytes of a token */

static void must(int right) {
  if (!right) abort();
}

static void put(const char *path, const char *head, const void *bytes,
                size_t n) {
  FILE *f = fopen(path, "wb");
  must(f && fputs(head, f) >= 0 && fwrite(bytes, 1, n, f) == n &&
       fclose(f) == 0);
}

/* A chunk of TOKENS tokens, all numbers 0. */
static void put_chunk(const char *path, const char *head) {
  char chunk[16 + TOKENS * ROW] = {0};
  const int64_t n = TOKENS;
  memcpy(chunk + 8, &n, sizeof n);
  put(path, head, chunk, sizeof chunk);
}

static void leave(void) {
  unlink(json);
  unlink(one);
  unlink(two);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  if (!mkdtemp(folder)) {
    strcpy(folder, "/tmp/kv_fuzz_XXXXXX");
    must(mkdtemp(folder) != NULL);
  }
  atexit(leave);
  snprintf(json, sizeof json, "%s/trace.json", folder);
  snprintf(one, sizeof one, "%s/1.chunks", folder);
  snprintf(two, sizeof two, "%s/2.chunks", folder);
  snprintf(out, sizeof out, "%s/t.safetensors", folder);
  return 0;
}

static void sentence(kv_rc rc, const kv_err *e) {
  must(rc == KV_INPUT && e->rc == rc && e->text[0] &&
       !strpbrk(e->text, "\n\r"));
}

static void pack(int tokens) {
  kv_err e = {0};
  kv_pack *p;
  kv_trace *t;
  kv_rc rc = kv_pack_open(folder, tokens, &p, &e);
  if (rc) {
    sentence(rc, &e);
    must(!p);
    return;
  }
  rc = kv_pack_write(p, &(kv_pack_how){0}, out, &e);
  if (rc) sentence(rc, &e);
  must((access(out, F_OK) == 0) == !rc);
  if (!rc) {
    must(kv_trace_open(out, &t, &e) == KV_OK);
    must(t->shape.n_tokens == kv_pack_found(p)->tokens);
    kv_trace_close(t);
    unlink(out);
  }
  kv_pack_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  bool is_json = n && bytes[0] == '{', is_file = n && bytes[0] == 'c';
  put(json, is_json ? "" : good_json, bytes, is_json ? n : 0);
  put_chunk(one, first_line);
  if (is_json)
    put_chunk(two, second_line);
  else if (is_file)
    put(two, "", bytes + 1, n - 1);
  else
    put(two, second_line, bytes + !!n, n - !!n);
  pack(0);
  pack(2);
  return 0;
}
