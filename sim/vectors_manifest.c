/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest of a folder of vectors, twice: manifest.json with rules and
 * digests, manifest.tsv a line a matrix.
 *
 *   # kvvectors 1 prompt_len=P n_tokens=T n_heads= n_kv_heads= d= d_v= scale=
 *   stage layer step head again dtype rows width offset bytes file
 *
 * Columns are parted by tabs; scale is hexadecimal; step is 0 and head -1
 * where a matrix has none; offset counts from the start of the file.
 */
#include "sim/vectors_part.h"

#include "ref/arith.h"
#include "sim/json.h"
#include "sim/number.h"
#include "traces/filehash.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct manifest {
  const kv_vectors *v;
  const char *dir;
  char *path; /* room for any file of dir */
  size_t room;
} manifest;

static const char *path_of(manifest *m, const char *name, const char *end) {
  snprintf(m->path, m->room, "%s/%s%s", m->dir, name, end);
  return m->path;
}

static bool has(const manifest *m, int stage) {
  for (int i = 0; i < m->v->n; i++)
    if (m->v->vector[i].stage == stage) return true;
  return false;
}

/* Where the first tensor of a stage's file begins: what is before the data
 * that was appended. */
static kv_rc data_start(manifest *m, int stage, int64_t *start, kv_err *e) {
  struct stat there;
  const char *name = kv_vectors_stage_at(m->v, stage).name;
  if (stat(path_of(m, name, ".safetensors"), &there))
    return kv_fail(e, KV_RESOURCE, "%s cannot be read: %s", m->path,
                   strerror(errno));
  *start = (int64_t)there.st_size;
  for (int i = 0; i < m->v->n; i++)
    if (m->v->vector[i].stage == stage)
      *start -= (int64_t)kv_vector_bytes(&m->v->vector[i]);
  return KV_OK;
}

/* --- manifest.tsv ------------------------------------------------------- */

static void tsv_head(const manifest *m, FILE *out) {
  const kv_shape *s = &m->v->cell->shape;
  fprintf(out,
          "# kvvectors 1 prompt_len=%d n_tokens=%d n_heads=%d n_kv_heads=%d "
          "d=%d d_v=%d scale=%a\n",
          s->prompt_len, s->n_tokens, s->n_heads, s->n_kv_heads, s->d, s->d_v,
          (double)s->scale);
  fputs("# stage\tlayer\tstep\thead\tagain\tdtype\trows\twidth\toffset\tbytes"
        "\tfile\n",
        out);
}

static void tsv_line(const kv_vector *x, const char *stage, int64_t offset,
                     FILE *out) {
  fprintf(out, "%s\t%d\t%d\t%d\t%d\t%s\t%zu\t%zu\t%lld\t%zu\t%s.safetensors\n",
          stage, x->layer, x->step, x->head, x->again,
          kv_st_dtype_name(x->type), x->rows, x->width, (long long)offset,
          kv_vector_bytes(x), stage);
}

static kv_rc write_tsv(manifest *m, FILE *out, kv_err *e) {
  tsv_head(m, out);
  for (int s = 0; s < kv_vectors_stage_count(m->v); s++) {
    int64_t at = 0;
    kv_rc rc = has(m, s) ? data_start(m, s, &at, e) : KV_OK;
    if (rc) return rc;
    for (int i = 0; i < m->v->n; i++) {
      const kv_vector *x = &m->v->vector[i];
      if (x->stage != s) continue;
      tsv_line(x, kv_vectors_stage_at(m->v, s).name, at, out);
      at += (int64_t)kv_vector_bytes(x);
    }
  }
  return KV_OK;
}

/* --- manifest.json ------------------------------------------------------ */

static void json_vector(kv_json *j, const kv_vector *x, int64_t offset) {
  char name[KV_VECTOR_NAME];
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "tensor", kv_vector_name(x, name));
  kv_json_integer(j, "layer", x->layer);
  if (x->step) kv_json_integer(j, "step", x->step);
  if (x->head >= 0) kv_json_integer(j, "head", x->head);
  kv_json_text(j, "dtype", kv_st_dtype_name(x->type));
  kv_json_open(j, "shape", '[');
  kv_json_integer(j, NULL, (int64_t)x->rows);
  if (x->width != 1) kv_json_integer(j, NULL, (int64_t)x->width);
  kv_json_close(j, ']');
  kv_json_integer(j, "offset", offset);
  kv_json_close(j, '}');
}

static kv_rc json_stage(manifest *m, kv_json *j, int s, kv_err *e) {
  kv_vectors_stage is = kv_vectors_stage_at(m->v, s);
  char file[64], hex[65];
  int64_t at;
  kv_digest digest;
  kv_rc rc = data_start(m, s, &at, e);
  if (!rc) rc = kv_file_digest(m->path, &digest, e);
  if (rc) return rc;
  kv_digest_hex(&digest, hex);
  snprintf(file, sizeof file, "%s.safetensors", is.name);
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "stage", is.name);
  kv_json_text(j, "file", file);
  kv_json_text(j, "sha256", hex);
  kv_json_text(j, "head_is", is.of);
  kv_json_text(j, "arithmetic", is.rules);
  kv_json_text(j, "rule", is.rule);
  kv_json_open(j, "tensors", '[');
  for (int i = 0; i < m->v->n; i++) {
    if (m->v->vector[i].stage != s) continue;
    json_vector(j, &m->v->vector[i], at);
    at += (int64_t)kv_vector_bytes(&m->v->vector[i]);
  }
  kv_json_close(j, ']');
  kv_json_close(j, '}');
  fputc('\n', j->out);
  return KV_OK;
}

static void json_shape(const manifest *m, kv_json *j) {
  const kv_shape *s = &m->v->cell->shape;
  char scale[KV_NUMBER];
  kv_json_integer(j, "prompt_len", s->prompt_len);
  kv_json_integer(j, "n_tokens", s->n_tokens);
  kv_json_integer(j, "n_heads", s->n_heads);
  kv_json_integer(j, "n_kv_heads", s->n_kv_heads);
  kv_json_integer(j, "d", s->d);
  kv_json_integer(j, "d_v", s->d_v);
  kv_json_raw(j, "scale", kv_number_float(s->scale, scale));
  kv_json_raw(j, "chunk", "128");
}

static kv_rc write_json(manifest *m, FILE *out, kv_err *e) {
  const kv_result *r = &m->v->cell->result;
  kv_json j = {.out = out};
  kv_digest identity;
  char hex[65];
  kv_rc rc = kv_trace_identity(m->v->cell->trace, &identity, e);
  if (rc) return rc;
  kv_digest_hex(&identity, hex);
  kv_json_open(&j, NULL, '{');
  kv_json_text(&j, "format", "kvvectors");
  kv_json_integer(&j, "version", 1);
  kv_json_text(&j, "trace", r->trace);
  kv_json_text(&j, "identity", hex);
  kv_json_text(&j, "method", r->spec);
  kv_json_raw(&j, "params", r->params);
  kv_json_integer(&j, "arithmetic", KV_ARITHMETIC);
  kv_json_text(&j, "ground",
               "binary32, round to nearest even, subnormals on, nothing fused "
               "but fma; the rules' numbers are those of ref/arith.h, the "
               "methods' sections those of ref/METHODS.md");
  json_shape(m, &j);
  kv_json_open(&j, "stages", '[');
  fputc('\n', out);
  for (int s = 0; !rc && s < kv_vectors_stage_count(m->v); s++)
    if (has(m, s)) rc = json_stage(m, &j, s, e);
  kv_json_close(&j, ']');
  kv_json_close(&j, '}');
  fputc('\n', out);
  return rc;
}

/* --- both --------------------------------------------------------------- */

typedef kv_rc writes(manifest *m, FILE *out, kv_err *e);

static kv_rc write_file(manifest *m, const char *name, writes *write,
                        kv_err *e) {
  FILE *out = fopen(path_of(m, name, ""), "w");
  kv_rc rc = out ? write(m, out, e) : KV_OK;
  if (rc) {
    fclose(out);
    return rc;
  }
  bool bad = !out || fflush(out) || ferror(out) || fsync(fileno(out));
  int why = errno;
  if (out && fclose(out)) bad = true;
  if (!bad) return KV_OK;
  return kv_fail(e, KV_RESOURCE, "%s cannot be written: %s",
                 path_of(m, name, ""), strerror(why));
}

kv_rc kv_vectors_manifest(const kv_vectors *v, const char *dir, kv_err *e) {
  manifest m = {.v = v, .dir = dir, .room = strlen(dir) + 128};
  m.path = malloc(m.room);
  if (!m.path) return kv_no_memory(e, "a file name", m.room);
  kv_rc rc = write_file(&m, "manifest.tsv", write_tsv, e);
  if (!rc) rc = write_file(&m, "manifest.json", write_json, e);
  free(m.path);
  return rc;
}
