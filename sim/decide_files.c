/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions files of a batch: sim/decide_files.h.
 */
#include "sim/decide_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/row_label.h"
#include "sim/verbs.h"

void kv_decide_files_close(kv_decide_files *f) {
  for (int i = 0; f->decide && i < f->cells; i++) kv_decide_close(f->decide[i]);
  free(f->decide);
  *f = (kv_decide_files){0};
}

static kv_rc make_folder(const char *dir, kv_err *e) {
  struct stat there;
  if (mkdir(dir, 0777) == 0) return KV_OK;
  if (errno == EEXIST && stat(dir, &there) == 0 && S_ISDIR(there.st_mode))
    return KV_OK;
  return kv_fail(e, KV_RESOURCE, "--decisions %s: no folder can be made: %s",
                 dir, strerror(errno));
}

const kv_watch *kv_decide_files_watch(kv_decide_files *f,
                                      const kv_watch *next) {
  for (int i = 0; i < f->cells; i++) {
    if (!f->decide[i]) continue;
    kv_watch *w = kv_decide_watch(f->decide[i]);
    w->next = next;
    next = w;
  }
  return next;
}

static bool alike(const kv_result *a, const kv_result *b) {
  return strcmp(a->method, b->method) == 0 && a->budget == b->budget;
}

/* How many cells before this one would be called the same. */
static int before(const kv_decide_files *f, int cell) {
  int n = 0;
  for (int i = 0; i < cell; i++)
    n += f->decide[i] &&
         alike(&f->batch->cell[i].result, &f->batch->cell[cell].result);
  return n;
}

/* Freed with free(); NULL without memory. */
static char *path_of(const kv_decide_files *f, int cell) {
  const kv_result *r = &f->batch->cell[cell].result;
  char budget[16] = "", again[16] = "";
  int earlier = before(f, cell);
  size_t room = strlen(f->dir) + strlen(r->trace) + strlen(r->method) + 64;
  char *path = malloc(room);
  if (r->budget >= 0) snprintf(budget, sizeof budget, "-b%d", r->budget);
  if (earlier) snprintf(again, sizeof again, "-%d", earlier + 1);
  if (path)
    snprintf(path, room, "%s/%s.%s%s%s.safetensors", f->dir, r->trace,
             r->method, budget, again);
  return path;
}

/* What is there is never written over: two cells, two runs or two traces of
 * one name would be one file. */
static kv_rc is_free(const kv_decide_files *f, int cell, kv_err *e) {
  struct stat there;
  char *path = path_of(f, cell);
  if (!path) return kv_no_memory(e, "a file name", 1);
  bool free_path = stat(path, &there) != 0;
  kv_rc rc = KV_OK;
  if (!free_path)
    rc = kv_fail(e, KV_USAGE,
                 "--decisions: %s is there already; remove it or name another "
                 "folder",
                 path);
  free(path);
  return rc;
}

static kv_rc open_one(kv_decide_files *f, int cell, kv_err *e) {
  const kv_cell *c = &f->batch->cell[cell];
  kv_err why = {0};
  if (!c->runs) return KV_OK;
  if (kv_decide_can(c, &why)) {
    kv_note(why.text);
    return KV_OK;
  }
  kv_rc rc = kv_decide_open(c, &f->decide[cell], e);
  return rc ? rc : is_free(f, cell, e);
}

kv_rc kv_decide_files_open(const char *dir, const kv_batch *b,
                           kv_decide_files *f, kv_err *e) {
  *f = (kv_decide_files){.dir = dir, .batch = b};
  kv_rc rc = make_folder(dir, e);
  if (rc) return rc;
  f->decide = kv_zalloc((size_t)b->cells + 1, sizeof(kv_decide *));
  if (!f->decide) return kv_no_memory(e, "decisions", sizeof *f->decide);
  f->cells = b->cells;
  for (int i = 0; !rc && i < b->cells; i++) rc = open_one(f, i, e);
  return rc;
}

static kv_rc write_one(const kv_decide_files *f, int cell, kv_err *e) {
  kv_row_label label = {0};
  kv_rc rc = kv_row_label_make(&f->batch->cell[cell].result, &label, e);
  if (rc) return rc;
  char *path = path_of(f, cell);
  if (!path)
    rc = kv_no_memory(e, "a file name", 1);
  else
    rc = kv_decide_write(f->decide[cell], path, label.brief, e);
  free(path);
  kv_row_label_free(&label);
  return rc;
}

kv_rc kv_decide_files_write(const kv_decide_files *f, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < f->cells; i++) {
    if (!f->decide[i] || !kv_result_ran(&f->batch->cell[i].result)) continue;
    kv_err why = {0};
    rc = write_one(f, i, &why);
    if (rc == KV_REFUSED) {
      kv_note(why.text);
      rc = KV_OK;
    } else if (rc) {
      kv_fail(e, rc, "%s", why.text);
    }
  }
  return rc;
}
