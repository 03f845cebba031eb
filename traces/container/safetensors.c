/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of traces/container/safetensors.h: map each file, parse its header,
 * join tensors and metadata into two sorted tables.
 */
#define _GNU_SOURCE 1
#include "traces/container/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/container/guard.h"
#include "traces/container/index.h"

typedef struct part {
  char *path;
  int fd;
  void *map; /* NULL: not mapped */
  uint64_t size;
  struct stat seen;
  atomic_int damaged;
  kv_st_header header;
} part;

typedef struct pair {
  const char *key, *value;
} pair;

struct kv_st {
  part *file; /* [n_files] never moves, because the guard points into it */
  int n_files;
  kv_st_tensor *tensor; /* [n], by name */
  size_t n;
  pair *meta; /* [n_meta], by key */
  size_t n_meta;
};

static kv_rc complain(const char *path, const char *what, kv_err *e) {
  bool ours = errno == ENOMEM || errno == EMFILE || errno == ENFILE;
  return kv_cannot(e, ours ? KV_RESOURCE : KV_INPUT, what, path);
}

static kv_rc map_file(part *f, kv_err *e) {
  char a[KV_SHOW];
  f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (f->fd < 0) return complain(f->path, "open", e);
  if (fstat(f->fd, &f->seen) != 0) return complain(f->path, "open", e);
  if (!S_ISREG(f->seen.st_mode)) {
    return kv_fail(e, KV_INPUT, "%s: is not a regular file",
                   kv_show(f->path, a));
  }
  f->size = (uint64_t)f->seen.st_size;
  if (f->size < 8) {
    return kv_fail(e, KV_INPUT, "%s: too short to be a safetensors file",
                   kv_show(f->path, a));
  }
  f->map = mmap(NULL, (size_t)f->size, PROT_READ, MAP_SHARED, f->fd, 0);
  if (f->map != MAP_FAILED) {
    return kv_guard_add(f->map, (size_t)f->size, &f->damaged, e);
  }
  f->map = NULL;
  return complain(f->path, "map", e);
}

/* Opens part i of the set at path; the part then owns path. */
static kv_rc open_part(char *path, part *f, kv_err *e) {
  f->path = path;
  f->fd = -1;
  if (!path) return kv_no_memory(e, "a file name", 0);
  kv_rc rc = map_file(f, e);
  if (rc) return rc;
  rc = kv_st_header_parse(path, f->size, f->map, &f->header, e);
  if (rc == KV_OK || !atomic_load(&f->damaged)) return rc;
  char a[KV_SHOW];
  return kv_fail(e, KV_INPUT, "%s: shrank while it was opened; write it again",
                 kv_show(path, a));
}

static int by_name(const void *a, const void *b) {
  const kv_st_tensor *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b) {
  const pair *x = a, *y = b;
  return strcmp(x->key, y->key);
}

static kv_rc join_tensors(kv_st *s, kv_err *e) {
  size_t n = 0;
  for (int f = 0; f < s->n_files; f++) n += s->file[f].header.n;
  s->tensor = calloc(n + 1, sizeof *s->tensor);
  if (!s->tensor) return kv_no_memory(e, "the tensor table", n);
  for (int f = 0; f < s->n_files; f++) {
    const kv_st_header *h = &s->file[f].header;
    for (size_t i = 0; i < h->n; i++) {
      s->tensor[s->n] = h->tensor[i];
      s->tensor[s->n++].file = f;
    }
  }
  qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
  for (size_t i = 1; i < s->n; i++) {
    if (strcmp(s->tensor[i - 1].name, s->tensor[i].name) != 0) continue;
    char a[KV_SHOW], b[KV_SHOW];
    return kv_fail(e, KV_INPUT, "%s: tensor %s appears in two shards",
                   kv_show(s->file[s->tensor[i].file].path, a),
                   kv_show(s->tensor[i].name, b));
  }
  return KV_OK;
}

/* Equal pairs of several shards become one; unequal pairs are refused. */
static kv_rc unite(kv_st *s, kv_err *e) {
  size_t kept = 0;
  char a[KV_SHOW], b[KV_SHOW];
  for (size_t i = 0; i < s->n_meta; i++) {
    const pair *last = kept ? &s->meta[kept - 1] : NULL;
    if (!last || strcmp(last->key, s->meta[i].key) != 0) {
      s->meta[kept++] = s->meta[i];
    } else if (strcmp(last->value, s->meta[i].value) != 0) {
      return kv_fail(e, KV_INPUT, "%s: the shards disagree about metadata %s",
                     kv_show(s->file[0].path, a), kv_show(s->meta[i].key, b));
    }
  }
  s->n_meta = kept;
  return KV_OK;
}

static kv_rc join_meta(kv_st *s, kv_err *e) {
  size_t n = 0;
  const char *key;
  json_t *value;
  for (int f = 0; f < s->n_files; f++) {
    n += json_object_size(s->file[f].header.meta);
  }
  s->meta = calloc(n + 1, sizeof *s->meta);
  if (!s->meta) return kv_no_memory(e, "the metadata table", n);
  for (int f = 0; f < s->n_files; f++) {
    json_object_foreach(s->file[f].header.meta, key, value) {
      s->meta[s->n_meta++] = (pair){key, json_string_value(value)};
    }
  }
  qsort(s->meta, s->n_meta, sizeof *s->meta, by_key);
  return unite(s, e);
}

static kv_rc open_single(const char *path, kv_st *s, kv_err *e) {
  s->file = calloc(1, sizeof *s->file);
  if (!s->file) return kv_no_memory(e, "a file", sizeof *s->file);
  s->n_files = 1;
  return open_part(kv_text_copy(strlen(path), path), s->file, e);
}

/* Checks that every name of the index is in its shard, and no other name. */
static kv_rc compare(const kv_st_index *x, const kv_st *s, kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  for (size_t i = 0; i < x->n; i++) {
    const kv_st_tensor *t = kv_st_find(s, x->entry[i].name);
    if (t && t->file == x->entry[i].file) continue;
    return kv_fail(e, KV_INPUT,
                   "%s: tensor %s is missing, although the index lists it",
                   kv_show(s->file[x->entry[i].file].path, a),
                   kv_show(x->entry[i].name, b));
  }
  if (s->n == x->n) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: the shards hold %zu tensors, but the index lists %zu",
                 kv_show(x->path, a), s->n, x->n);
}

static kv_rc open_set(const char *path, kv_st *s, kv_err *e) {
  kv_st_index x;
  kv_rc rc = kv_st_index_read(path, &x, e);
  if (rc) return rc;
  s->file = calloc((size_t)x.n_files, sizeof *s->file);
  if (!s->file) rc = kv_no_memory(e, "the shards", (size_t)x.n_files);
  for (int f = 0; !rc && f < x.n_files; f++) {
    s->n_files = f + 1;
    rc = open_part(kv_st_index_path(&x, f), &s->file[f], e);
  }
  if (!rc) rc = join_tensors(s, e);
  if (!rc) rc = compare(&x, s, e);
  kv_st_index_free(&x);
  return rc;
}

kv_rc kv_st_open(const char *path, kv_st **out, kv_err *e) {
  kv_st *s = *out = calloc(1, sizeof *s);
  kv_rc rc;
  if (!s) return kv_no_memory(e, "a file set", sizeof *s);
  if (kv_st_is_index(path)) {
    rc = open_set(path, s, e);
  } else {
    rc = open_single(path, s, e);
    if (!rc) rc = join_tensors(s, e);
  }
  if (!rc) rc = join_meta(s, e);
  if (rc) {
    kv_st_close(s);
    *out = NULL;
  }
  return rc;
}

void kv_st_close(kv_st *s) {
  if (!s) return;
  for (int f = 0; f < s->n_files; f++) {
    part *x = &s->file[f];
    kv_st_header_free(&x->header);
    kv_guard_remove(x->map);
    if (x->map) munmap(x->map, (size_t)x->size);
    if (x->fd >= 0) close(x->fd);
    free(x->path);
  }
  free(s->file);
  free(s->tensor);
  free(s->meta);
  free(s);
}

size_t kv_st_count(const kv_st *s) { return s->n; }

const kv_st_tensor *kv_st_at(const kv_st *s, size_t i) { return &s->tensor[i]; }

const kv_st_tensor *kv_st_find(const kv_st *s, const char *name) {
  const kv_st_tensor key = {.name = name};
  return bsearch(&key, s->tensor, s->n, sizeof key, by_name);
}

size_t kv_st_meta_count(const kv_st *s) { return s->n_meta; }

const char *kv_st_meta_key(const kv_st *s, size_t i) { return s->meta[i].key; }

const char *kv_st_meta(const kv_st *s, const char *key) {
  const pair wanted = {.key = key};
  const pair *p = bsearch(&wanted, s->meta, s->n_meta, sizeof *p, by_key);
  return p ? p->value : NULL;
}

int kv_st_files(const kv_st *s) { return s->n_files; }

const struct stat *kv_st_file_stat(const kv_st *s, int i) {
  return &s->file[i].seen;
}

kv_digest kv_st_digest(const kv_st *s, int i) {
  const part *x = &s->file[i];
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_sha256_add(&h, x->map, (size_t)x->size);
  return kv_sha256_end(&h);
}

kv_rc kv_st_damaged(const kv_st *s, kv_err *e) {
  char a[KV_SHOW];
  for (int f = 0; f < s->n_files; f++) {
    const part *x = &s->file[f];
    struct stat now;
    if (!atomic_load(&x->damaged) && fstat(x->fd, &now) == 0 &&
        now.st_size == x->seen.st_size &&
        now.st_mtim.tv_sec == x->seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == x->seen.st_mtim.tv_nsec) {
      continue;
    }
    return kv_fail(e, KV_INPUT,
                   "%s: the file shrank or was rewritten while it was read; "
                   "write it again and repeat the command",
                   kv_show(x->path, a));
  }
  return KV_OK;
}

void kv_st_release(const kv_st *s, const kv_st_tensor *t) {
  const part *x = &s->file[t->file];
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = (uintptr_t)t->data & ~(page - 1);
  uintptr_t to = (uintptr_t)t->data + (uintptr_t)t->bytes;
  if (t->bytes == 0 || !x->map) return;
  madvise((void *)from, to - from, MADV_DONTNEED);
}
