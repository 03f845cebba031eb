/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors: one worker replays the cell on the asked layers while
 * vectors_collect.c and vectors_seen.c look on; then a folder beside the
 * asked one is filled and renamed.
 */
#include "sim/vectors_part.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the replay --------------------------------------------------------- */

static void close_worker(kv_worker *w) {
  kv_backend_ref.scratch_close(w->scratch);
  free(w->mark);
  free(w->seconds);
  free(w->store);
}

static kv_rc open_worker(const kv_cell *c, kv_worker *w, kv_err *e) {
  const kv_plan *plan = &c->plan;
  w->mark = kv_zalloc(1, kv_cost_mark_size(&c->shape));
  w->seconds = kv_zalloc(1, sizeof *w->seconds);
  w->store = kv_zalloc(1, sizeof *w->store);
  if (!w->mark || !w->seconds || !w->store)
    return kv_no_memory(e, "a worker", kv_cost_mark_size(&c->shape));
  return kv_backend_ref.scratch_open(&c->shape, &plan, 1, &w->scratch, e);
}

/* One layer up to the last asked step. */
static kv_rc walk(kv_vectors *v, kv_layer *l, int index, kv_worker *w,
                  bool *stopped, kv_err *e) {
  const kv_vectors_ask *ask = v->ask;
  kv_cell *c = ask->cell;
  kv_team team = {w, 1};
  int last = ask->step[ask->steps - 1];
  kv_rc rc = kv_trace_scan_layer(c->trace, index, e);
  if (rc) return rc;
  kv_vectors_inputs(v, &c->trace->layer[index].data);
  kv_layer_begin(l, index);
  kv_layer_prompt(l, &team);
  for (int t = c->shape.prompt_len; t < last && !v->fault.rc; t++) {
    if (ask->stop && ask->stop()) *stopped = true;
    if (*stopped) return KV_OK;
    kv_layer_step(l, t, &team);
  }
  rc = kv_layer_end(l, e);
  if (!rc && c->result.status == KV_CELL_FAILED)
    rc = kv_fail(e, KV_INPUT, "%s: %s", c->result.spec, c->result.reason);
  if (!rc && v->fault.rc) rc = kv_fail(e, v->fault.rc, "%s", v->fault.text);
  return rc;
}

static kv_rc replay(kv_vectors *v, bool *stopped, kv_err *e) {
  kv_cell *c = v->ask->cell;
  kv_layer *l = NULL;
  kv_worker w = {0};
  kv_rc rc = kv_cell_prepare(c, false, e);
  c->plan.method = &v->shown;
  kv_float_ground();
  if (!rc) rc = open_worker(c, &w, e);
  if (!rc) rc = kv_layer_open(&kv_backend_ref, &c, 1, &v->watch, &l, e);
  for (int i = 0; !rc && !*stopped && i < v->ask->layers; i++)
    rc = walk(v, l, v->ask->layer[i], &w, stopped, e);
  kv_layer_close(l);
  close_worker(&w);
  c->plan.method = v->method;
  return rc;
}

/* --- the folder --------------------------------------------------------- */

static kv_rc check_folder(const char *dir, kv_err *e) {
  struct stat there;
  if (stat(dir, &there)) return KV_OK;
  DIR *d = S_ISDIR(there.st_mode) ? opendir(dir) : NULL;
  int names = 0;
  while (d && readdir(d)) names++;
  if (d) closedir(d);
  if (d && names <= 2) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "-o %s: is there and is not an empty folder; name a new one",
                 dir);
}

/* Where the files are until all are whole: freed by the caller, with room for
 * the name of a file behind it. */
static char *part_of(const char *dir, kv_err *e) {
  size_t n = strlen(dir), room = n + 32 + KV_VECTOR_FILE;
  char *part = malloc(room);
  if (!part) {
    kv_no_memory(e, "a file name", room);
    return NULL;
  }
  while (n > 1 && dir[n - 1] == '/') n--;
  snprintf(part, room, "%.*s.%ld.part", (int)n, dir, (long)getpid());
  return part;
}

static kv_rc make_folder(const kv_vectors *v, const char *part, kv_err *e) {
  if (mkdir(part, 0777) == 0) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "-o %s: no folder can be made: %s",
                 v->ask->dir, strerror(errno));
}

/* Takes no memory: there may be none. */
static void remove_folder(const kv_vectors *v, char *part) {
  static const char *const manifest[] = {"manifest.json", "manifest.tsv"};
  char name[KV_VECTOR_FILE], *end = part + strlen(part);
  *end = '/';
  for (int i = 0; i < v->n; i++) {
    strcpy(end + 1, kv_vector_file(v, &v->vector[i], name));
    unlink(part);
  }
  for (int i = 0; i < 2; i++) {
    strcpy(end + 1, manifest[i]);
    unlink(part);
  }
  *end = 0;
  rmdir(part);
}

static kv_rc publish(const kv_vectors *v, const char *part, kv_err *e) {
  kv_rc rc = kv_vectors_files(v, part, e);
  if (!rc) rc = kv_vectors_manifest(v, part, e);
  if (!rc) rc = kv_trace_damaged(v->cell->trace, e);
  if (!rc && rename(part, v->ask->dir))
    rc = kv_fail(e, KV_RESOURCE, "-o %s: %s", v->ask->dir, strerror(errno));
  return rc;
}

/* The folder comes first: a replay may take long. */
static kv_rc write_folder(kv_vectors *v, bool *stopped, kv_err *e) {
  char *part = part_of(v->ask->dir, e);
  if (!part) return KV_RESOURCE;
  kv_rc rc = make_folder(v, part, e);
  if (!rc) {
    rc = replay(v, stopped, e);
    if (!rc && !*stopped) rc = publish(v, part, e);
    if (rc || *stopped) remove_folder(v, part);
  }
  free(part);
  return rc;
}

kv_rc kv_vectors_write(const kv_vectors_ask *ask, bool *stopped, kv_err *e) {
  kv_vectors v = {0};
  *stopped = false;
  kv_rc rc = check_folder(ask->dir, e);
  if (rc) return rc;
  rc = kv_vectors_open(&v, ask, e);
  if (!rc) rc = write_folder(&v, stopped, e);
  kv_vectors_close(&v);
  return rc;
}
