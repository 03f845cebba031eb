/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest of a folder of vectors, twice: manifest.json with rules and
 * digests, manifest.tsv with a line for each matrix.
 *
 *   # kvvectors 1 prompt_len= n_tokens= n_heads= n_kv_heads= lanes= d= d_v=
 *     scale=                                         (one line)
 *   stage layer step head again dtype rows width offset bytes file
 *
 * Columns are separated by tabs; scale is hexadecimal; a matrix without a step
 * has step 0, one without a head -1; offset counts from the start of the file.
 */
#include "sim/run/look/vectors_part.h"

#include "ref/ground/arith.h"
#include "ref/ground/filehash.h"
#include "ref/ground/json.h"
#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "traces/trace/trace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct manifest {
  const kv_vectors *v;
  const char *dir;
  char *path; /* memory for the path of any file in dir */
  size_t room;
} manifest;

static const char *path_of(manifest *m, const char *name) {
  snprintf(m->path, m->room, "%s/%s", m->dir, name);
  return m->path;
}

static bool has(const manifest *m, int stage) {
  for (int i = 0; i < m->v->n; i++)
    if (m->v->vector[i].stage == stage) return true;
  return false;
}

/* Offset of the first matrix in a stage's file: its size less its data's. */
static kv_rc data_start(manifest *m, int stage, int64_t *start, kv_err *e) {
  struct stat there;
  char name[KV_VECTOR_FILE] = "";
  int64_t bytes = 0;
  *start = 0;
  if (m->v->ask->raw) return KV_OK;
  for (int i = 0; i < m->v->n; i++) {
    const kv_vector *x = &m->v->vector[i];
    if (x->stage != stage) continue;
    kv_vector_file(m->v, x, name);
    bytes += (int64_t)kv_vector_bytes(x);
  }
  if (stat(path_of(m, name), &there))
    return kv_cannot(e, KV_RESOURCE, "read", m->path);
  *start = (int64_t)there.st_size - bytes;
  return KV_OK;
}

/* Offset of the next matrix in the same stage's file. */
static int64_t after(const manifest *m, int64_t at, const kv_vector *x) {
  return m->v->ask->raw ? 0 : at + (int64_t)kv_vector_bytes(x);
}

/* Lanes of a layer: KV heads, or query heads. */
static int lanes_of(const manifest *m) {
  const kv_shape *s = &m->v->cell->shape;
  return kv_lane_count(&m->v->cell->plan.needs, s);
}

/* --- manifest.tsv ------------------------------------------------------- */

static void tsv_head(const manifest *m, FILE *out) {
  const kv_shape *s = &m->v->cell->shape;
  fprintf(out,
          "# kvvectors 1 prompt_len=%d n_tokens=%d n_heads=%d n_kv_heads=%d "
          "lanes=%d d=%d d_v=%d scale=%a\n",
          s->prompt_len, s->n_tokens, s->n_heads, s->n_kv_heads, lanes_of(m),
          s->d, s->d_v, (double)s->scale);
  fputs("# stage\tlayer\tstep\thead\tagain\tdtype\trows\twidth\toffset\tbytes"
        "\tfile\n",
        out);
}

static void tsv_line(const manifest *m, const kv_vector *x, int64_t offset,
                     FILE *out) {
  char file[KV_VECTOR_FILE];
  fprintf(out, "%s\t%d\t%d\t%d\t%d\t%s\t%zu\t%zu\t%lld\t%zu\t%s\n",
          kv_vectors_stage_at(m->v, x->stage).name, x->layer, x->step, x->head,
          x->again, kv_st_dtype_name(x->type), x->rows, x->width,
          (long long)offset, kv_vector_bytes(x), kv_vector_file(m->v, x, file));
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
      tsv_line(m, x, at, out);
      at = after(m, at, x);
    }
  }
  return KV_OK;
}

/* --- manifest.json ------------------------------------------------------ */

/* The name of a file and its digest. */
static kv_rc json_file(manifest *m, kv_json *j, const kv_vector *x, kv_err *e) {
  char file[KV_VECTOR_FILE], hex[65];
  kv_digest digest;
  kv_vector_file(m->v, x, file);
  kv_rc rc = kv_file_digest(path_of(m, file), &digest, e);
  if (rc) return rc;
  kv_digest_hex(&digest, hex);
  kv_json_text(j, "file", file);
  kv_json_text(j, "sha256", hex);
  return KV_OK;
}

static kv_rc json_vector(manifest *m, kv_json *j, const kv_vector *x,
                         int64_t offset, kv_err *e) {
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
  kv_rc rc = KV_OK;
  if (m->v->ask->raw)
    rc = json_file(m, j, x, e);
  else
    kv_json_integer(j, "offset", offset);
  kv_json_close(j, '}');
  return rc;
}

static kv_rc json_vectors(manifest *m, kv_json *j, int s, kv_err *e) {
  int64_t at;
  kv_rc rc = data_start(m, s, &at, e);
  kv_json_open(j, "tensors", '[');
  for (int i = 0; !rc && i < m->v->n; i++) {
    if (m->v->vector[i].stage != s) continue;
    rc = json_vector(m, j, &m->v->vector[i], at, e);
    at = after(m, at, &m->v->vector[i]);
  }
  kv_json_close(j, ']');
  return rc;
}

/* Of k_clipped and v_clipped: the sum of all matrices. */
static void json_sum(const manifest *m, kv_json *j, int s) {
  int64_t sum = 0;
  if (s != KV_V_K_CLIPPED && s != KV_V_V_CLIPPED) return;
  for (int i = 0; i < m->v->n; i++)
    for (size_t r = 0; m->v->vector[i].stage == s && r < m->v->vector[i].rows;
         r++)
      sum += ((const int32_t *)m->v->vector[i].data)[r];
  kv_json_integer(j, "sum", sum);
}

static kv_rc json_stage(manifest *m, kv_json *j, int s, kv_err *e) {
  kv_vectors_stage is = kv_vectors_stage_at(m->v, s);
  char rule[KV_VECTORS_RULE];
  kv_vectors_rule(m->v, s, rule);
  kv_vector any = {.stage = s};
  kv_json_open(j, NULL, '{');
  kv_json_text(j, "stage", is.name);
  kv_rc rc = m->v->ask->raw ? KV_OK : json_file(m, j, &any, e);
  kv_json_text(j, "head_is", is.of);
  kv_json_text(j, "arithmetic", is.rules);
  kv_json_text(j, "rule", rule);
  json_sum(m, j, s);
  if (!rc) rc = json_vectors(m, j, s, e);
  kv_json_close(j, '}');
  fputc('\n', j->out);
  return rc;
}

static void json_shape(const manifest *m, kv_json *j) {
  const kv_shape *s = &m->v->cell->shape;
  char scale[KV_NUMBER];
  kv_json_integer(j, "prompt_len", s->prompt_len);
  kv_json_integer(j, "n_tokens", s->n_tokens);
  kv_json_integer(j, "n_heads", s->n_heads);
  kv_json_integer(j, "n_kv_heads", s->n_kv_heads);
  kv_json_integer(j, "lanes", lanes_of(m));
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
  kv_json_text(
      &j, "ground",
      "binary32, round to nearest even, subnormals on, nothing fused "
      "but fma; the rules' numbers are those of ref/ground/arith.h, the "
      "methods' sections those of ref/METHODS_EACH.md");
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
  FILE *out = fopen(path_of(m, name), "w");
  kv_rc rc = out ? write(m, out, e) : KV_OK;
  if (rc) {
    fclose(out);
    return rc;
  }
  bool bad = !out || fflush(out) || ferror(out) || fsync(fileno(out));
  int why = errno;
  if (out && fclose(out)) bad = true;
  if (!bad) return KV_OK;
  errno = why;
  return kv_cannot(e, KV_RESOURCE, "write", path_of(m, name));
}

kv_rc kv_vectors_manifest(const kv_vectors *v, const char *dir, kv_err *e) {
  manifest m = {.v = v, .dir = dir, .room = strlen(dir) + KV_VECTOR_FILE + 1};
  m.path = malloc(m.room);
  if (!m.path) return kv_no_memory(e, "a file name", m.room);
  kv_rc rc = write_file(&m, "manifest.tsv", write_tsv, e);
  if (!rc) rc = write_file(&m, "manifest.json", write_json, e);
  free(m.path);
  return rc;
}
