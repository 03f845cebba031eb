/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of traces/container/writer.h. The first append fixes the layout:
 * tensors are assigned to shards in order, and each shard's header is written
 * before its data. Files go through traces/container/newfile.h.
 */
#define _GNU_SOURCE 1
#include "traces/container/writer.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/container/newfile.h"
#include "traces/text/json.h"

enum { ALIGN = 64, FIELD = 8 };

typedef struct tensor {
  char *name;
  uint64_t bytes;
  json_t *entry; /* dtype, shape; data_offsets once the shard is known */
  int shard;
} tensor;

struct kv_st_writer {
  char *path, *stem; /* stem: path without .safetensors */
  char *result;
  uint64_t shard_bytes;
  json_t *meta;
  json_t *names; /* all declared names, to notice a second one */
  tensor *list;  /* [n], capacity room */
  size_t n, room;
  int laid; /* the layout is fixed */
  int shards, at_shard;
  size_t at;        /* tensor being appended */
  uint64_t left;    /* bytes that it still lacks */
  kv_newfile *file; /* [shards + 1]; the last is the index */
};

static kv_rc no_room(kv_err *e) { return kv_no_memory(e, "the writer", 0); }

kv_rc kv_st_writer_open(const char *path, uint64_t shard_bytes,
                        kv_st_writer **out, kv_err *e) {
  static const char tail[] = ".safetensors";
  size_t n = strlen(path), m = sizeof tail - 1;
  kv_st_writer *w = *out = calloc(1, sizeof *w);
  if (!w) return no_room(e);
  w->shard_bytes = shard_bytes ? shard_bytes : KV_ST_SHARD;
  w->path = kv_text_copy(n, path);
  if (n > m && strcmp(path + n - m, tail) == 0) n -= m;
  w->stem = kv_text_copy(n, path);
  w->meta = json_object();
  w->names = json_object();
  if (w->path && w->stem && w->meta && w->names) return KV_OK;
  kv_st_writer_close(w);
  *out = NULL;
  return no_room(e);
}

static kv_rc grow(kv_st_writer *w, kv_err *e) {
  if (w->n < w->room) return KV_OK;
  size_t room = w->room ? 2 * w->room : 64;
  tensor *list = realloc(w->list, room * sizeof *list);
  if (!list) return no_room(e);
  w->list = list;
  w->room = room;
  return KV_OK;
}

/* Bytes of a shape, and the shape as JSON into entry. */
static kv_rc describe(const char *name, kv_st_dtype dtype, int rank,
                      const uint64_t *shape, tensor *t, kv_err *e) {
  uint64_t bits = kv_st_dtype_bits(dtype);
  char a[KV_SHOW];
  kv_json_begin();
  json_t *list = json_array();
  int bad = 0;
  for (int i = 0; i < rank; i++) {
    bad |= shape[i] >> 62 || __builtin_mul_overflow(bits, shape[i], &bits);
    json_array_append_new(list, json_integer((json_int_t)shape[i]));
  }
  t->entry =
      json_pack("{s:s,s:o}", "dtype", kv_st_dtype_name(dtype), "shape", list);
  bool whole = kv_json_end();
  t->bytes = bits / 8;
  if (bad || bits % 8 || bits >> 62) {
    return kv_fail(e, KV_USAGE, "tensor %s has an impossible shape",
                   kv_show(name, a));
  }
  return whole ? KV_OK : no_room(e);
}

static kv_rc accept_name(kv_st_writer *w, const char *name, kv_err *e) {
  char a[KV_SHOW];
  const char *why = NULL;
  if (!kv_utf8_valid(strlen(name), (const unsigned char *)name)) {
    why = "is not UTF-8";
  } else if (json_object_get(w->names, name) ||
             strcmp(name, "__metadata__") == 0) {
    why = "is declared twice";
  }
  if (why) {
    return kv_fail(e, KV_USAGE, "tensor %s %s", kv_show(name, a), why);
  }
  return json_object_set_new(w->names, name, json_true()) ? no_room(e) : KV_OK;
}

kv_rc kv_st_writer_declare(kv_st_writer *w, const char *name, kv_st_dtype dtype,
                           int rank, const uint64_t *shape, kv_err *e) {
  assert(!w->laid && "declare before the first append");
  kv_rc rc = accept_name(w, name, e);
  if (!rc) rc = grow(w, e);
  if (rc) return rc;
  tensor *t = &w->list[w->n++];
  *t = (tensor){.name = kv_text_copy(strlen(name), name)};
  if (!t->name) return no_room(e);
  return describe(name, dtype, rank, shape, t, e);
}

kv_rc kv_st_writer_meta(kv_st_writer *w, const char *key, const char *value,
                        kv_err *e) {
  assert(!w->laid && "metadata before the first append");
  char a[KV_SHOW];
  if (!kv_utf8_valid(strlen(key), (const unsigned char *)key) ||
      !kv_utf8_valid(strlen(value), (const unsigned char *)value)) {
    return kv_fail(e, KV_USAGE, "metadata %s is not UTF-8", kv_show(key, a));
  }
  json_t *text = json_string(value);
  return json_object_set_new(w->meta, key, text) ? no_room(e) : KV_OK;
}

/* Distributes the tensors to shards and gives each its offsets there. */
static kv_rc deal(kv_st_writer *w, kv_err *e) {
  uint64_t used = 0;
  for (size_t i = 0; i < w->n; i++) {
    tensor *t = &w->list[i];
    if (used > 0 && t->bytes > w->shard_bytes - used) {
      w->shards++;
      used = 0;
    }
    t->shard = w->shards;
    json_t *pair =
        json_pack("[I,I]", (json_int_t)used, (json_int_t)(used + t->bytes));
    if (json_object_set_new(t->entry, "data_offsets", pair)) return no_room(e);
    used += t->bytes;
    if (used > w->shard_bytes) used = w->shard_bytes;
  }
  w->shards++;
  w->file = calloc((size_t)w->shards + 1, sizeof *w->file);
  return w->file ? KV_OK : no_room(e);
}

static char *print(const char *format, const char *stem, int i, int n) {
  size_t room = strlen(stem) + 64;
  char *text = malloc(room);
  if (text) snprintf(text, room, format, stem, i, n);
  return text;
}

static char *shard_path(const kv_st_writer *w, int i) {
  if (w->shards == 1) return kv_text_copy(strlen(w->path), w->path);
  return print("%s-%05d-of-%05d.safetensors", w->stem, i + 1, w->shards);
}

/* The header's JSON of one shard, padded so that data starts on ALIGN. */
static char *header_text(const kv_st_writer *w, int shard, size_t *n) {
  json_t *root = json_object();
  int bad = json_object_set(root, "__metadata__", w->meta);
  for (size_t i = 0; i < w->n; i++) {
    if (w->list[i].shard != shard) continue;
    bad |= json_object_set(root, w->list[i].name, w->list[i].entry);
  }
  char *text = bad ? NULL : kv_json_print(root, JSON_COMPACT);
  json_decref(root);
  if (!text) return NULL;
  size_t length = strlen(text);
  *n = (length + FIELD + ALIGN - 1) / ALIGN * ALIGN - FIELD;
  char *padded = realloc(text, *n + 1);
  if (padded) memset(padded + length, ' ', *n - length);
  if (!padded) free(text);
  return padded;
}

static kv_rc begin_shard(kv_st_writer *w, kv_err *e) {
  size_t n = 0;
  kv_newfile *f = &w->file[w->at_shard];
  char *text = header_text(w, w->at_shard, &n);
  char *path = shard_path(w, w->at_shard);
  kv_rc rc = text && path ? kv_newfile_open(path, f, e) : no_room(e);
  uint64_t length = n;
  if (!rc) rc = kv_newfile_write(f, sizeof length, &length, e);
  if (!rc) rc = kv_newfile_write(f, n, text, e);
  free(text);
  free(path);
  return rc;
}

/* Advances to the next tensor that needs bytes; begins shards on the way. */
static kv_rc advance(kv_st_writer *w, kv_err *e) {
  kv_rc rc = KV_OK;
  while (!rc && w->left == 0 && w->at < w->n) {
    const tensor *t = &w->list[w->at++];
    if (t->shard > w->at_shard) {
      rc = kv_newfile_flush(&w->file[w->at_shard++], e);
      if (!rc) rc = begin_shard(w, e);
    }
    w->left = t->bytes;
  }
  return rc;
}

/* Bytes of all data; UINT64_MAX if beyond it. */
static uint64_t bytes_of_all(const kv_st_writer *w) {
  uint64_t total = 0;
  for (size_t i = 0; i < w->n; i++)
    if (__builtin_add_overflow(total, w->list[i].bytes, &total))
      return UINT64_MAX;
  return total;
}

static kv_rc lay_out(kv_st_writer *w, kv_err *e) {
  if (w->laid) return KV_OK;
  w->laid = 1;
  kv_rc rc = kv_newfile_room(w->path, bytes_of_all(w), e);
  if (!rc) rc = deal(w, e);
  if (!rc) rc = begin_shard(w, e);
  return rc ? rc : advance(w, e);
}

kv_rc kv_st_writer_append(kv_st_writer *w, uint64_t bytes, const void *data,
                          kv_err *e) {
  const unsigned char *from = data;
  kv_rc rc = lay_out(w, e);
  while (!rc && bytes > 0) {
    assert(w->left > 0 && "no more bytes than were declared");
    uint64_t n = bytes < w->left ? bytes : w->left;
    rc = kv_newfile_write(&w->file[w->at_shard], n, from, e);
    from += n;
    bytes -= n;
    w->left -= n;
    if (!rc) rc = advance(w, e);
  }
  return rc;
}

/* {"metadata": {"total_size"}, "weight_map": {tensor: file}} */
static char *index_text(const kv_st_writer *w) {
  json_t *map = json_object();
  int bad = 0;
  for (size_t i = 0; i < w->n; i++) {
    char *path = shard_path(w, w->list[i].shard);
    const char *slash = path ? strrchr(path, '/') : NULL;
    json_t *name = path ? json_string(slash ? slash + 1 : path) : NULL;
    bad |= json_object_set_new(map, w->list[i].name, name);
    free(path);
  }
  json_t *root = json_pack("{s:{s:I},s:o}", "metadata", "total_size",
                           (json_int_t)bytes_of_all(w), "weight_map", map);
  char *text = bad || !root ? NULL : kv_json_print(root, JSON_INDENT(1));
  json_decref(root);
  return text;
}

static kv_rc write_index(kv_st_writer *w, kv_err *e) {
  char *text = index_text(w);
  kv_newfile *f = &w->file[w->shards];
  kv_rc rc = text ? kv_newfile_open(w->result, f, e) : no_room(e);
  if (!rc) rc = kv_newfile_write(f, strlen(text), text, e);
  if (!rc) rc = kv_newfile_flush(f, e);
  free(text);
  return rc;
}

kv_rc kv_st_writer_finish(kv_st_writer *w, const char **result, kv_err *e) {
  kv_rc rc = lay_out(w, e);
  if (rc) return rc;
  assert(w->left == 0 && w->at == w->n && "all declared bytes are there");
  int files = w->shards > 1 ? w->shards + 1 : 1;
  w->result = files == 1 ? kv_text_copy(strlen(w->path), w->path)
                         : print("%s.safetensors.index.json", w->stem, 0, 0);
  if (!w->result) return no_room(e);
  rc = kv_newfile_flush(&w->file[w->at_shard], e);
  if (!rc && files > 1) rc = write_index(w, e);
  if (!rc) rc = kv_newfile_publish(files, w->file, e);
  if (result) *result = rc ? NULL : w->result;
  return rc;
}

void kv_st_writer_close(kv_st_writer *w) {
  if (!w) return;
  for (int i = 0; w->file && i <= w->shards; i++) {
    kv_newfile_discard(&w->file[i]);
  }
  for (size_t i = 0; i < w->n; i++) {
    free(w->list[i].name);
    json_decref(w->list[i].entry);
  }
  json_decref(w->meta);
  json_decref(w->names);
  free(w->file);
  free(w->list);
  free(w->path);
  free(w->stem);
  free(w->result);
  free(w);
}
