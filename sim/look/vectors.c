/* SPDX-License-Identifier: Apache-2.0
 *
 * Test vectors: contract in sim/look/vectors.h. One worker replays the cell on
 * the chosen layers while vectors_collect.c and vectors_seen.c collect; then a
 * temporary folder beside the target is filled and renamed.
 */
#include "sim/look/vectors_part.h"

#include "traces/container/leftover.h"
#include "traces/trace/trace.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the replay --------------------------------------------------------- */

/* Replays one layer up to the last step asked for. */
static kv_rc walk_layer(const kv_vectors *v, kv_layer *l, int index,
                        kv_worker *w, bool *stopped, kv_err *e) {
  const kv_vectors_ask *ask = v->ask;
  const kv_cell *c = ask->cell;
  kv_team team = {w, 1, NULL};
  int last = ask->step[ask->steps - 1];
  kv_layer_begin(l, index);
  kv_layer_prompt(l, &team);
  for (int t = c->shape.prompt_len; t < last && !v->fault.rc; t++) {
    if (ask->stop && ask->stop()) *stopped = true;
    if (*stopped) return KV_OK;
    kv_layer_step(l, t, &team);
  }
  return kv_layer_end(l, e);
}

static kv_rc walk(kv_vectors *v, kv_layer *l, int index, kv_worker *w,
                  bool *stopped, kv_err *e) {
  kv_cell *c = v->ask->cell;
  kv_rc rc = kv_trace_scan_layer(c->trace, index, e);
  if (rc) return rc;
  kv_vectors_inputs(v, &c->trace->layer[index].data);
  rc = walk_layer(v, l, index, w, stopped, e);
  if (rc || *stopped) return rc;
  if (c->result.status == KV_CELL_FAILED)
    return kv_fail(e, KV_INPUT, "%s: %s", c->result.spec, c->result.reason);
  return v->fault.rc ? kv_fail(e, v->fault.rc, "%s", v->fault.text) : KV_OK;
}

/* Replays layers from..to-1 unwatched, for what they publish. */
static kv_rc walk_above(kv_vectors *v, int from, int to, kv_worker *w,
                        bool *stopped, kv_err *e) {
  kv_cell *c = v->ask->cell;
  kv_layer *l = NULL;
  c->plan.method = v->method;
  kv_cell_tell_layers(c);
  kv_rc rc = kv_layer_open(&kv_backend_ref, &c, 1, NULL, &l, e);
  for (int i = from; !rc && !*stopped && i < to; i++) {
    rc = kv_trace_scan_layer(c->trace, i, e);
    if (!rc) rc = walk_layer(v, l, i, w, stopped, e);
  }
  kv_layer_close(l);
  c->plan.method = &v->shown;
  kv_cell_tell_layers(c);
  return rc;
}

static kv_rc replay(kv_vectors *v, bool *stopped, kv_err *e) {
  int next = 0; /* layer */
  kv_cell *c = v->ask->cell;
  kv_layer *l = NULL;
  kv_worker w = {0};
  const kv_plan *plan = &c->plan;
  kv_rc rc = kv_trace_expect_plain(c->trace, "kvreplay vectors", e);
  if (!rc) rc = kv_cell_prepare(c, false, false, e);
  c->plan.method = &v->shown;
  kv_cell_tell_layers(c);
  kv_float_ground();
  if (!rc) rc = kv_worker_open(&kv_backend_ref, &c->shape, &plan, 1, &w, e);
  if (!rc) rc = kv_layer_open(&kv_backend_ref, &c, 1, &v->watch, &l, e);
  for (int i = 0; !rc && !*stopped && i < v->ask->layers; i++) {
    int index = v->ask->layer[i];
    if (c->messages) rc = walk_above(v, next, index, &w, stopped, e);
    if (!rc && !*stopped) rc = walk(v, l, index, &w, stopped, e);
    next = index + 1;
  }
  kv_layer_close(l);
  kv_worker_close(&kv_backend_ref, &w);
  c->plan.method = v->method;
  kv_cell_tell_layers(c);
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

/* The temporary folder's path, freed by the caller, with room behind it for a
 * file's name. */
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

/* Allocates nothing: memory may have ended. */
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

/* Makes the folder before the replay, which may take long, so that a bad path
 * is reported at once. */
static kv_rc write_folder(kv_vectors *v, bool *stopped, kv_err *e) {
  char *part = part_of(v->ask->dir, e);
  if (!part) return KV_RESOURCE;
  kv_rc rc = make_folder(v, part, e);
  if (!rc) {
    kv_leftover_add(part);
    rc = replay(v, stopped, e);
    kv_leftover_drop(part);
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
