/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a safetensors file for each stage that has matrices; or, raw, a file
 * of plain bytes for each matrix.
 */
#include "sim/look/vectors_part.h"

#include "traces/container/newfile.h"
#include "traces/container/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank_of(const kv_vector *x) { return x->width == 1 ? 1 : 2; }

static kv_rc declare(const kv_vectors *v, int stage, kv_st_writer *out,
                     kv_err *e) {
  char name[KV_VECTOR_NAME];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < v->n; i++) {
    const kv_vector *x = &v->vector[i];
    uint64_t shape[2] = {x->rows, x->width};
    if (x->stage == stage)
      rc = kv_st_writer_declare(out, kv_vector_name(x, name), x->type,
                                rank_of(x), shape, e);
  }
  return rc;
}

static kv_rc append(const kv_vectors *v, int stage, kv_st_writer *out,
                    kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < v->n; i++)
    if (v->vector[i].stage == stage)
      rc = kv_st_writer_append(out, kv_vector_bytes(&v->vector[i]),
                               v->vector[i].data, e);
  return rc;
}

/* Writes one stage's file, never split by size, because the manifest gives
 * offsets into it. */
static kv_rc write_stage(const kv_vectors *v, int stage, const char *path,
                         kv_err *e) {
  kv_st_writer *out = NULL;
  kv_vectors_stage is = kv_vectors_stage_at(v, stage);
  char rule[KV_VECTORS_RULE];
  kv_vectors_rule(v, stage, rule);
  kv_rc rc = kv_st_writer_open(path, UINT64_MAX / 2, &out, e);
  if (!rc) rc = declare(v, stage, out, e);
  if (!rc) rc = kv_st_writer_meta(out, "format", "kvvectors", e);
  if (!rc) rc = kv_st_writer_meta(out, "version", "1", e);
  if (!rc) rc = kv_st_writer_meta(out, "stage", is.name, e);
  if (!rc) rc = kv_st_writer_meta(out, "rule", rule, e);
  if (!rc) rc = kv_st_writer_meta(out, "trace", v->cell->trace->name, e);
  if (!rc) rc = kv_st_writer_meta(out, "method", v->cell->result.spec, e);
  if (!rc) rc = append(v, stage, out, e);
  if (!rc) rc = kv_st_writer_finish(out, NULL, e);
  kv_st_writer_close(out);
  return rc;
}

static bool has(const kv_vectors *v, int stage) {
  for (int i = 0; i < v->n; i++)
    if (v->vector[i].stage == stage) return true;
  return false;
}

static kv_rc write_stages(const kv_vectors *v, const char *dir, char *path,
                          size_t room, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int s = 0; !rc && s < kv_vectors_stage_count(v); s++) {
    if (!has(v, s)) continue;
    snprintf(path, room, "%s/%s.safetensors", dir,
             kv_vectors_stage_at(v, s).name);
    rc = write_stage(v, s, path, e);
  }
  return rc;
}

static kv_rc write_raw(const kv_vectors *v, const char *dir, char *path,
                       size_t room, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < v->n; i++) {
    const kv_vector *x = &v->vector[i];
    char name[KV_VECTOR_FILE];
    kv_newfile file = {0};
    snprintf(path, room, "%s/%s", dir, kv_vector_file(v, x, name));
    rc = kv_newfile_open(path, &file, e);
    if (!rc) rc = kv_newfile_write(&file, kv_vector_bytes(x), x->data, e);
    if (!rc) rc = kv_newfile_flush(&file, e);
    if (!rc) rc = kv_newfile_publish(1, &file, e);
    kv_newfile_discard(&file);
  }
  return rc;
}

kv_rc kv_vectors_files(const kv_vectors *v, const char *dir, kv_err *e) {
  size_t room = strlen(dir) + KV_VECTOR_FILE + 1;
  char *path = malloc(room);
  if (!path) return kv_no_memory(e, "a file name", room);
  kv_rc rc = v->ask->raw ? write_raw(v, dir, path, room, e)
                         : write_stages(v, dir, path, room, e);
  free(path);
  return rc;
}
