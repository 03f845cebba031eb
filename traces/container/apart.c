/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps inputs and outputs apart: traces/container/apart.h.
 */
#define _GNU_SOURCE 1
#include "traces/container/apart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/ground/text.h"
#include "traces/container/index.h"
#include "traces/container/safetensors.h"

typedef struct found {
  bool there, regular;
  struct stat self, folder; /* folder: the one that contains it */
  const char *name;
} found;

static bool look_at_folder(const char *path, const char *name,
                           struct stat *out) {
  char *folder = name == path ? kv_text_copy(1, ".")
                              : kv_text_copy((size_t)(name - path), path);
  bool there = folder && stat(folder, out) == 0;
  free(folder);
  return there;
}

/* False: the path has not even a folder, so nothing can be lost. */
static bool look(const char *path, found *f) {
  const char *slash = strrchr(path, '/');
  *f = (found){.name = slash ? slash + 1 : path};
  f->there = stat(path, &f->self) == 0;
  f->regular = f->there && S_ISREG(f->self.st_mode);
  return look_at_folder(path, f->name, &f->folder) || f->there;
}

static bool same_node(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Devices and pipes may be named twice: nothing in them can be lost. */
static bool same(const char *a, const char *b) {
  found x, y;
  if (!look(a, &x) || !look(b, &y) || x.there != y.there) return false;
  if (x.there)
    return same_node(&x.self, &y.self) &&
           (x.regular || S_ISDIR(x.self.st_mode));
  return strcmp(x.name, y.name) == 0 && same_node(&x.folder, &y.folder);
}

/* Would the file be directly in that folder? */
static bool lies_in(const char *folder, const char *file) {
  found f;
  struct stat s;
  return stat(folder, &s) == 0 && look(file, &f) && same_node(&s, &f.folder);
}

static kv_rc clash(const kv_place *out, const kv_place *in, const char *path,
                   kv_err *e) {
  char a[KV_SHOW], b[KV_SHOW];
  return kv_fail(e, KV_USAGE, "%s %s would overwrite %s, %s; name another file",
                 out->what, kv_show(out->path, a), kv_show(path, b), in->what);
}

/* The database's log, shared memory and rollback journal belong to it. No other
 * file may be one of them, read or written, because SQLite writes over it. */
static kv_rc apart_from_database(const kv_place *in, const kv_place *other,
                                 bool written, kv_err *e) {
  static const char *const tail[] = {"-wal", "-shm", "-journal"};
  size_t room = strlen(in->path) + 16;
  char *path = malloc(room);
  if (!path) return kv_no_memory(e, "a file name", room);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < 3; i++) {
    snprintf(path, room, "%s%s", in->path, tail[i]);
    if (!same(path, other->path)) continue;
    rc = written ? clash(other, in, path, e) : clash(in, other, path, e);
  }
  free(path);
  return rc;
}

/* An index that cannot be read has no shards here; opening it says why. */
static kv_rc apart_from_shards(const kv_place *in, const kv_place *out,
                               kv_err *e) {
  kv_st_index set;
  if (!kv_st_is_index(in->path)) return KV_OK;
  if (kv_st_index_read(in->path, &set, NULL)) return KV_OK;
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < set.n_files; i++) {
    char *path = kv_st_index_path(&set, i);
    if (!path) rc = kv_no_memory(e, "a file name", 0);
    if (path && same(path, out->path)) rc = clash(out, in, path, e);
    free(path);
  }
  kv_st_index_free(&set);
  return rc;
}

static kv_rc apart_from(const kv_place *in, const kv_place *out, kv_err *e) {
  if (!in->path || !out->path) return KV_OK;
  if (same(in->path, out->path)) return clash(out, in, in->path, e);
  return in->database ? apart_from_database(in, out, true, e)
                      : apart_from_shards(in, out, e);
}

static kv_rc apart_from_other(const kv_place *a, const kv_place *b, kv_err *e) {
  char x[KV_SHOW], y[KV_SHOW];
  if (!a->path || !b->path) return KV_OK;
  if (same(a->path, b->path))
    return kv_fail(e, KV_USAGE, "%s %s and %s %s are one file; name two",
                   a->what, kv_show(a->path, x), b->what, kv_show(b->path, y));
  const kv_place *dir = a->folder ? a : b, *file = a->folder ? b : a;
  if (!dir->folder || file->folder || !lies_in(dir->path, file->path))
    return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s %s is inside %s %s, where other files are written; name "
                 "another folder",
                 file->what, kv_show(file->path, x), dir->what,
                 kv_show(dir->path, y));
}

bool kv_is_sqlite(const char *path) {
  static const char head[] = "SQLite format 3"; /* and its zero */
  char text[sizeof head] = "";
  struct stat s;
  if (stat(path, &s) || !S_ISREG(s.st_mode)) return false;
  FILE *f = fopen(path, "rbe");
  if (!f) return false;
  bool all = fread(text, 1, sizeof text, f) == sizeof text;
  fclose(f);
  return all && memcmp(text, head, sizeof text) == 0;
}

static bool is_trace(const char *path, bool made) {
  kv_st *s;
  if (kv_st_open(path, &s, NULL)) return false;
  const char *format = kv_st_meta(s, "format");
  const char *by = kv_st_meta(s, "recorder");
  bool trace = format && strcmp(format, "kvtrace") == 0;
  if (made && by && strcmp(by, "kvtrace synth") == 0) trace = false;
  kv_st_close(s);
  return trace;
}

static kv_rc spares(const kv_place *out, kv_err *e) {
  char a[KV_SHOW];
  const char *is = NULL;
  if (!out->path || out->folder) return KV_OK;
  if (kv_is_sqlite(out->path))
    is = "an SQLite database";
  else if (is_trace(out->path, out->synthetic))
    is = out->synthetic ? "a recorded trace" : "a trace";
  if (!is) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s %s is %s, which is not overwritten; name another file, or "
                 "remove it first",
                 out->what, kv_show(out->path, a), is);
}

kv_rc kv_places_apart(int inputs, const kv_place *in, int outputs,
                      const kv_place *out, kv_err *e) {
  const kv_place standard = {.what = "standard output", .path = "/dev/stdout"};
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < inputs; i++) {
    rc = apart_from(&in[i], &standard, e);
    for (int k = 0; !rc && k < outputs; k++)
      rc = apart_from(&in[i], &out[k], e);
    for (int k = 0; !rc && in[i].database && k < inputs; k++)
      if (in[i].path && in[k].path)
        rc = apart_from_database(&in[i], &in[k], false, e);
  }
  for (int i = 0; !rc && i < outputs; i++) {
    if (!out[i].instead) rc = apart_from_other(&out[i], &standard, e);
    for (int k = 0; !rc && k < i; k++)
      rc = apart_from_other(&out[i], &out[k], e);
    if (!rc) rc = spares(&out[i], e);
  }
  return rc;
}
