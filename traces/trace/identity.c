/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of a trace and of its request (kv_trace_identity,
 * kv_trace_request of traces/trace/trace.h), and the cache, which saves hashing
 * the same file twice.
 *
 * Hashed, every number as 64 bits little-endian, every text as its length and
 * bytes: the number of tensors; of each its name, type, rank, dimensions and
 * the 32 bytes of its data's SHA-256; the number of remaining metadata pairs;
 * of each its key and value. Of a request: the model's digest and the token
 * ids; or of q, k and v the name, rank, dimensions and the SHA-256 of the data
 * as F16. A copy without token ids has its original's request in its metadata.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ref/ground/arith.h"
#include "ref/ground/text.h"
#include "ref/ground/threads.h"
#include "traces/trace/own.h"
#include "traces/trace/trace.h"

static void add_number(kv_sha256 *h, uint64_t x) { kv_sha256_add(h, &x, 8); }

static void add_text(kv_sha256 *h, const char *text) {
  add_number(h, strlen(text));
  kv_sha256_add(h, text, strlen(text));
}

/* Is it q, k or v of a recorded layer? */
static bool is_qkv(const kv_trace *t, const kv_st_tensor *x) {
  const char *part;
  return kv_trace_part(t, x->name, &part) >= 0 && part[1] == 0 &&
         strchr("qkv", *part);
}

static uint16_t half_at(const kv_st_tensor *x, size_t i) {
  const char *data = x->data;
  uint16_t h;
  float f;
  if (x->dtype == KV_ST_BF16) {
    memcpy(&h, data + 2 * i, sizeof h);
    return kv_to_f16(kv_from_bf16(h));
  }
  memcpy(&f, data + 4 * i, sizeof f);
  return kv_to_f16(f);
}

/* Adds the numbers of a BF16 or F32 tensor as F16. */
static void add_halves(const kv_st_tensor *x, kv_sha256 *h) {
  uint16_t half[4096];
  size_t most = sizeof half / sizeof *half;
  size_t n = (size_t)x->bytes / (x->dtype == KV_ST_BF16 ? 2 : 4);
  for (size_t at = 0, m; at < n; at += m) {
    m = n - at < most ? n - at : most;
    for (size_t i = 0; i < m; i++) half[i] = half_at(x, at + i);
    kv_sha256_add(h, half, m * sizeof *half);
  }
}

/* SHA-256 of every tensor's bytes, or of q, k and v alone as F16. Large tensors
 * are released after use. */
static void hash_data(const kv_trace *t, bool request, kv_digest *out) {
  const kv_st *s = t->own->files;
  long n = (long)kv_st_count(s);
#pragma omp parallel for schedule(dynamic) num_threads(kv_threads())
  for (long i = 0; i < n; i++) {
    const kv_st_tensor *x = kv_st_at(s, (size_t)i);
    kv_sha256 h;
    if (request && !is_qkv(t, x)) continue;
    kv_sha256_init(&h);
    if (request && x->dtype != KV_ST_F16)
      add_halves(x, &h);
    else
      kv_sha256_add(&h, x->data, (size_t)x->bytes);
    out[i] = kv_sha256_end(&h);
    if (x->bytes > (uint64_t)64 << 20) kv_st_release(s, x);
  }
}

static void add_tensor(const kv_st_tensor *x, const char *type,
                       const kv_digest *data, kv_sha256 *h) {
  add_text(h, x->name);
  add_text(h, type);
  add_number(h, (uint64_t)x->rank);
  for (int j = 0; j < x->rank; j++) add_number(h, x->shape[j]);
  kv_sha256_add(h, data->byte, sizeof data->byte);
}

static void add_tensors(const kv_trace *t, bool request, const kv_digest *data,
                        kv_sha256 *h) {
  const kv_st *s = t->own->files;
  size_t n = kv_st_count(s);
  if (!request) add_number(h, n);
  for (size_t i = 0; i < n; i++) {
    const kv_st_tensor *x = kv_st_at(s, i);
    if (!request || is_qkv(t, x))
      add_tensor(x, request ? "F16" : kv_st_dtype_name(x->dtype), &data[i], h);
  }
}

/* False for metadata that say when and by what the trace was recorded. */
static int counts(const char *key) {
  return strcmp(key, "created") != 0 && strcmp(key, "recorder") != 0;
}

static void add_meta(const kv_st *s, kv_sha256 *h) {
  size_t n = kv_st_meta_count(s);
  uint64_t kept = 0;
  for (size_t i = 0; i < n; i++) kept += (uint64_t)counts(kv_st_meta_key(s, i));
  add_number(h, kept);
  for (size_t i = 0; i < n; i++) {
    const char *key = kv_st_meta_key(s, i);
    if (!counts(key)) continue;
    add_text(h, key);
    add_text(h, kv_st_meta(s, key));
  }
}

/* "FOLDER/kvreplay/identity", created if needed; 0: there is no home. */
static int cache_folder(char *out, size_t room) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int own = base && *base == '/';
  if (!own && !(home && *home == '/')) return 0;
  int n = snprintf(out, room, "%s%s/kvreplay/identity", own ? base : home,
                   own ? "" : "/.cache");
  if (n < 0 || (size_t)n >= room) return 0;
  for (char *slash = out + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(out, 0777);
    *slash = '/';
  }
  return mkdir(out, 0777) == 0 || errno == EEXIST;
}

/* False if a file is younger than two seconds: two writes within one tick of
 * the clock have the same time, so its hash is not remembered. */
static int compressed(const kv_st *s) {
  time_t now = time(NULL);
  for (int f = 0; f < kv_st_files(s); f++) {
    if (kv_st_file_stat(s, f)->st_mtim.tv_sec > now - 2) return 0;
  }
  return 1;
}

/* Path of the cache's file for this set; 0: none. of: "1" for identities. */
static int cache_path(const kv_st *s, const char *of, size_t room, char *out) {
  kv_sha256 h;
  char hex[65];
  if (!compressed(s) || !cache_folder(out, room - 66)) return 0;
  kv_sha256_init(&h);
  add_text(&h, of);
  for (int f = 0; f < kv_st_files(s); f++) {
    const struct stat *x = kv_st_file_stat(s, f);
    add_number(&h, (uint64_t)x->st_dev);
    add_number(&h, (uint64_t)x->st_ino);
    add_number(&h, (uint64_t)x->st_size);
    add_number(&h, (uint64_t)x->st_mtim.tv_sec);
    add_number(&h, (uint64_t)x->st_mtim.tv_nsec);
  }
  kv_digest key = kv_sha256_end(&h);
  kv_digest_hex(&key, hex);
  strcat(strcat(out, "/"), hex);
  return 1;
}

static int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads 64 hex digits; ignores what follows. */
static int read_hex(const char *text, kv_digest *out) {
  for (int i = 0; i < 32; i++) {
    int high = nibble(text[2 * i]);
    int low = high < 0 ? -1 : nibble(text[2 * i + 1]);
    if (low < 0) return 0;
    out->byte[i] = (uint8_t)(16 * high + low);
  }
  return 1;
}

kv_rc kv_trace_stated(const kv_trace *t, kv_digest *out, kv_err *e) {
  const char *text = kv_trace_meta(t, KV_REQUEST_KEY);
  char a[KV_SHOW], b[KV_SHOW];
  if (!text || (read_hex(text, out) && !text[64])) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: metadata " KV_REQUEST_KEY
                 " is %s; it must be 64 digits 0-9a-f",
                 kv_show(t->path, a), kv_show(text, b));
}

static int recall(const char *path, kv_digest *out) {
  char text[66] = "";
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  return n == 65 && text[64] == '\n' && read_hex(text, out);
}

/* Writes the file whole or not at all, because others may read it. */
static void remember(const char *path, const kv_digest *d) {
  char temporary[4096], hex[65];
  int n = snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
  FILE *f = n < (int)sizeof temporary ? fopen(temporary, "wxe") : NULL;
  if (!f) return;
  kv_digest_hex(d, hex);
  int bad = fprintf(f, "%s\n", hex) < 0;
  bad |= fclose(f) != 0;
  if (bad || rename(temporary, path) != 0) unlink(temporary);
}

static kv_rc compute(const kv_trace *t, bool request, kv_digest *out,
                     kv_err *e) {
  size_t n = kv_st_count(t->own->files);
  kv_digest *data = calloc(n + 1, sizeof *data);
  kv_sha256 h;
  if (!data) return kv_no_memory(e, "the digests", n * sizeof *data);
  hash_data(t, request, data);
  kv_sha256_init(&h);
  add_tensors(t, request, data, &h);
  if (!request) add_meta(t->own->files, &h);
  *out = kv_sha256_end(&h);
  free(data);
  return kv_trace_damaged(t, e);
}

static kv_rc find(const kv_trace *t, bool request, kv_digest *out, kv_err *e) {
  char path[3072];
  int cached =
      cache_path(t->own->files, request ? "request" : "1", sizeof path, path);
  if (cached && recall(path, out)) return kv_trace_damaged(t, e);
  kv_rc rc = compute(t, request, out, e);
  if (!rc && cached) remember(path, out);
  return rc;
}

kv_rc kv_trace_identity(const kv_trace *t, kv_digest *out, kv_err *e) {
  return find(t, false, out, e);
}

kv_rc kv_trace_request(const kv_trace *t, kv_digest *out, kv_err *e) {
  const char *model = kv_trace_meta(t, "model_digest");
  kv_sha256 h;
  if (!t->tokens && kv_trace_meta(t, KV_REQUEST_KEY))
    return kv_trace_stated(t, out, e);
  if (!model || !t->tokens) return find(t, true, out, e);
  kv_sha256_init(&h);
  add_text(&h, model);
  kv_sha256_add(&h, t->tokens, (size_t)t->shape.n_tokens * sizeof *t->tokens);
  *out = kv_sha256_end(&h);
  return KV_OK;
}
