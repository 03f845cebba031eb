/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions files of a batch: sim/commands/decide_files.h.
 */
#include "sim/commands/decide_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/commands/commands.h"
#include "sim/show/row_label.h"

void kv_decide_files_close(kv_decide_files *f) {
  for (int i = 0; f->decide && i < f->cells; i++) kv_decide_close(f->decide[i]);
  free(f->decide);
  free(f->name);
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

/* Freed with free(); NULL without memory. */
static char *path_of(const kv_decide_files *f, int cell) {
  size_t room = strlen(f->dir) + sizeof f->name[cell].text + 16;
  char *path = malloc(room);
  if (path)
    snprintf(path, room, "%s/%s.safetensors", f->dir, f->name[cell].text);
  return path;
}

/* KV_USAGE if the file exists: two cells, runs or traces of one name must not
 * overwrite each other. */
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

kv_rc kv_decide_files_open(const char *dir, const kv_list *traces, int at,
                           const kv_batch *b, kv_decide_files *f, kv_err *e) {
  *f = (kv_decide_files){.dir = dir, .batch = b};
  kv_rc rc = make_folder(dir, e);
  if (rc) return rc;
  f->decide = kv_zalloc((size_t)b->cells + 1, sizeof(kv_decide *));
  f->name = kv_zalloc((size_t)b->cells + 1, sizeof *f->name);
  if (!f->decide || !f->name)
    return kv_no_memory(e, "decisions", sizeof *f->name);
  f->cells = b->cells;
  rc = kv_decide_names(traces->item, traces->n, at, b, f->name, e);
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
