/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an index: traces/container/index.h.
 */
#define _GNU_SOURCE 1
#include "traces/container/index.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/text.h"
#include "traces/container/header.h"

enum { INDEX_MOST = 100000000, SHARDS_MOST = 1000 };

/* Reads the whole file: an index is not mapped. */
static kv_rc slurp(const char *path, const char *what, size_t *n,
                   unsigned char **out, kv_err *e) {
  size_t room = 65536;
  char a[KV_SHOW];
  kv_rc rc = KV_OK;
  unsigned char *text = NULL;
  FILE *f = fopen(path, "rbe");
  *n = 0;
  *out = NULL;
  if (!f) goto bad;
  do {
    unsigned char *more = realloc(text, room *= 2);
    if (!more) {
      rc = kv_no_memory(e, what, room);
      goto out;
    }
    text = more;
    *n += fread(text + *n, 1, room - *n, f);
  } while (*n == room && room <= INDEX_MOST);
  if (ferror(f)) goto bad;
  if (*n <= INDEX_MOST) goto out;
  rc = kv_fail(e, KV_INPUT, "%s: the %s is longer than %d bytes",
               kv_show(path, a), what, (int)INDEX_MOST);
  goto out;
bad:
  rc = errno == ENOMEM ? kv_no_memory(e, what, 0)
                       : kv_cannot(e, KV_INPUT, "read", path);
out:
  if (f) fclose(f);
  if (rc) {
    free(text);
    text = NULL;
  }
  *out = text;
  return rc;
}

static int leaves(const char *name) {
  return *name == 0 || strchr(name, '/') || strchr(name, '\\') ||
         strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static kv_rc bad(const kv_st_index *x, const char *what, const char *name,
                 kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: the index's %s %s", kv_show(x->path, a),
                 kv_show(name, b), what);
}

/* Collects names into x->entry, and all file names, repeated, into x->file. */
static kv_rc collect(json_t *map, kv_st_index *x, kv_err *e) {
  size_t n = json_object_size(map);
  const char *name;
  json_t *value;
  x->entry = calloc(n + 1, sizeof *x->entry);
  x->file = calloc(n + 1, sizeof *x->file);
  if (!x->entry || !x->file) return kv_no_memory(e, "the index", n);
  json_object_foreach(map, name, value) {
    const char *file = json_string_value(value);
    if (!file) return bad(x, "does not name a file", name, e);
    if (leaves(file)) return bad(x, "names a file outside the folder", file, e);
    x->entry[x->n].name = name;
    x->file[x->n++] = file;
  }
  return KV_OK;
}

static kv_rc number(json_t *map, kv_st_index *x, kv_err *e) {
  size_t kept = 0;
  qsort(x->file, x->n, sizeof *x->file, by_text);
  for (size_t i = 0; i < x->n; i++) {
    if (kept && strcmp(x->file[kept - 1], x->file[i]) == 0) continue;
    x->file[kept++] = x->file[i];
  }
  if (kept == 0 || kept > SHARDS_MOST) {
    return bad(x, "names no shard, or more than a thousand", "weight_map", e);
  }
  x->n_files = (int)kept;
  for (size_t i = 0; i < x->n; i++) {
    const char *file =
        json_string_value(json_object_get(map, x->entry[i].name));
    const char **at = bsearch(&file, x->file, kept, sizeof file, by_text);
    x->entry[i].file = (int)(at - x->file);
  }
  return KV_OK;
}

bool kv_st_is_index(const char *path) {
  static const char tail[] = ".index.json";
  size_t n = strlen(path), m = sizeof tail - 1;
  return n > m && strcmp(path + n - m, tail) == 0;
}

kv_rc kv_st_json_file(const char *path, const char *what, json_t **out,
                      kv_err *e) {
  size_t n;
  unsigned char *text;
  *out = NULL;
  kv_rc rc = slurp(path, what, &n, &text, e);
  if (!rc) rc = kv_st_json(path, what, n, text, out, e);
  free(text);
  return rc;
}

kv_rc kv_st_index_read(const char *path, kv_st_index *out, kv_err *e) {
  *out = (kv_st_index){.path = path};
  kv_rc rc = kv_st_json_file(path, "index", &out->root, e);
  if (rc) return rc;
  json_t *map = json_object_get(out->root, "weight_map");
  if (!json_is_object(map)) {
    rc = bad(out, "is missing or not an object", "weight_map", e);
  }
  if (!rc) rc = collect(map, out, e);
  if (!rc) rc = number(map, out, e);
  if (rc) kv_st_index_free(out);
  return rc;
}

void kv_st_index_free(kv_st_index *x) {
  if (!x) return;
  json_decref(x->root);
  free(x->entry);
  free(x->file);
  *x = (kv_st_index){0};
}

char *kv_st_index_path(const kv_st_index *x, int i) {
  const char *slash = strrchr(x->path, '/');
  size_t folder = slash ? (size_t)(slash + 1 - x->path) : 0;
  size_t n = strlen(x->file[i]);
  char *path = malloc(folder + n + 1);
  if (!path) return NULL;
  memcpy(path, x->path, folder);
  memcpy(path + folder, x->file[i], n + 1);
  return path;
}
