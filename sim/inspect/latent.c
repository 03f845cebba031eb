/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_latents_layer: sim/inspect/latent.h.
 */
#include "sim/inspect/latent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inspect/classes.h"
#include "sim/spec/code.h"

enum { FROM = KV_NEAREST_FROM, TILE = KV_LATENT_TILE };

/* Squares that were missed, and of the tokens themselves, by octave. */
typedef struct sums {
  double missed[KV_REBUILT_WAYS][KV_REBUILT_OCTAVES], raw[KV_REBUILT_OCTAVES];
} sums;

typedef struct work {
  const kv_token_rows *rows;
  const kv_nearest *near;
  const kv_kernels *kernel;
  const kv_tensor *of;
  kv_compressor c;
  int n;            /* tokens that have z, in z[n][latent] */
  double raw;       /* their squares, element by element */
  int32_t at[TILE]; /* tokens of the tile */
  int32_t *token;   /* [n] those that have z */
  float *x, *mean;  /* [TILE][width] */
  float *decoded;   /* the same: what is rebuilt */
  float *hidden, *code, *less, *pack, *z;
  sums sum;
} work;

/* --- a tile -------------------------------------------------------------- */

/* Token t and the mean of its references are row i of the tile. */
static void take(work *w, int t, int i) {
  const int32_t *near = kv_nearest_of(w->near, t, KV_RESIDUAL_LIST);
  size_t width = (size_t)w->rows->width, at = (size_t)i * width;
  const float *token = kv_token_row(w->rows, t);
  int n = 0;
  while (n < KV_RESIDUAL_K && near[n] >= 0) n++;
  w->at[i] = t;
  memcpy(w->x + at, token, width * sizeof *token);
  for (size_t x = 0; x < width; x++) {
    float sum = 0;
    for (int j = 0; j < n; j++) sum = sum + kv_token_row(w->rows, near[j])[x];
    w->mean[at + x] = sum / (float)n;
    w->raw += (double)token[x] * (double)token[x];
  }
}

/* Squares of row i of x, and of its difference from what was made. */
static void miss(work *w, int way, int i) {
  size_t width = (size_t)w->rows->width, at = (size_t)i * width;
  int c = kv_class_octave(w->at[i], KV_REBUILT_OCTAVES);
  double missed = 0, raw = 0;
  for (size_t x = at; x < at + width; x++) {
    double off = (double)w->x[x] - (double)w->decoded[x];
    missed += off * off;
    raw += (double)w->x[x] * (double)w->x[x];
  }
  w->sum.missed[way][c] += missed;
  if (way == 0) w->sum.raw[c] += raw;
}

/* What m latent vectors are decoded to, with the means or without. */
static void rebuild(work *w, int way, int m, const float *z) {
  size_t all = (size_t)m * (size_t)w->rows->width;
  kv_delta_decode(w->kernel, &w->c, w->of, m, z, w->hidden, w->decoded,
                  w->pack);
  for (size_t x = 0; way == KV_REBUILT_NEAREST && x < all; x++)
    w->decoded[x] = w->decoded[x] + w->mean[x];
  for (int i = 0; i < m; i++) miss(w, way, i);
}

static void code(work *w, int m) {
  size_t all = (size_t)m * (size_t)w->c.latent;
  float *z = w->z + (size_t)w->n * (size_t)w->c.latent;
  kv_delta_code(w->kernel, &w->c, w->of, m, w->x, w->hidden, w->code, w->pack);
  kv_delta_code(w->kernel, &w->c, w->of, m, w->mean, w->hidden, w->less,
                w->pack);
  for (size_t i = 0; i < all; i++) z[i] = w->code[i] - w->less[i];
  memcpy(w->token + w->n, w->at, (size_t)m * sizeof *w->at);
  rebuild(w, KV_REBUILT_NEAREST, m, z);
  rebuild(w, KV_REBUILT_ALONE, m, w->code);
  w->n += m;
}

static void code_all(work *w) {
  int m = 0;
  for (int t = FROM; t < w->rows->n; t++) {
    if (!kv_nearest_is_reference(t, KV_RESIDUAL_LIST)) take(w, t, m++);
    if (m == TILE || (m && t + 1 == w->rows->n)) {
      code(w, m);
      m = 0;
    }
  }
}

/* --- what is told of them ------------------------------------------------ */

static double square(int n, const float *z) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)z[i] * (double)z[i];
  return sum;
}

/* The mean of |z| over tokens and elements from .. end - 1. */
static double mean_size(const work *w, const int from[2], const int end[2]) {
  double sum = 0;
  for (int i = from[0]; i < end[0]; i++)
    for (int j = from[1]; j < end[1]; j++)
      sum += fabs((double)w->z[(size_t)i * (size_t)w->c.latent + (size_t)j]);
  return sum / ((double)(end[0] - from[0]) * (end[1] - from[1]));
}

static void map(const work *w, double unit, kv_latent_sizes *o) {
  int d = w->c.latent;
  o->ranges = w->n < KV_SIZE_RANGES ? w->n : KV_SIZE_RANGES;
  o->parts = d < KV_SIZE_PARTS ? d : KV_SIZE_PARTS;
  for (int r = 0; r < o->ranges; r++) {
    int from[2] = {(int)((int64_t)w->n * r / o->ranges), 0};
    int end[2] = {(int)((int64_t)w->n * (r + 1) / o->ranges), 0};
    o->first[r] = w->token[from[0]];
    for (int c = 0; unit > 0 && c < o->parts; c++) {
      from[1] = (int)((int64_t)d * c / o->parts);
      end[1] = (int)((int64_t)d * (c + 1) / o->parts);
      o->size[r][c] = (int32_t)(1000 * mean_size(w, from, end) / unit + .5);
    }
  }
}

static void count(const work *w, kv_residual_stats *o, kv_latent_sizes *sizes) {
  int d = w->c.latent;
  double squares = 0;
  for (int i = 0; i < w->n; i++) {
    double one = square(d, w->z + (size_t)i * (size_t)d), norm = sqrt(one);
    squares += one;
    o->norm += norm;
    o->norms[kv_class_quarter(norm, KV_NORM_FIRST, KV_NORMS)]++;
  }
  double unit = sqrt(squares / ((double)w->n * d));
  for (size_t i = 0; i < (size_t)w->n * (size_t)d; i++)
    o->values[kv_class_line(unit > 0 ? 8 * (double)w->z[i] / unit : 0,
                            KV_VALUE_FIRST, KV_VALUES)]++;
  map(w, unit, sizes);
  o->tokens = w->n;
  o->norm /= w->n;
  o->share = w->raw > 0 ? squares / w->raw : 0;
}

static double all_of(const double *octave) {
  double sum = 0;
  for (int c = 0; c < KV_REBUILT_OCTAVES; c++) sum += octave[c];
  return sum;
}

/* The number that the file's metadata have; 0: they have none. */
static int length_of(const kv_asset *file) {
  const char *text = kv_asset_meta(file, "trained_length");
  long n = text ? strtol(text, NULL, 10) : 0;
  return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

static bool learned_alone(const kv_asset *file) {
  const char *text = kv_asset_meta(file, "trained_references");
  return text && !strcmp(text, "none");
}

static void tell(const work *w, const kv_asset *file, const char *path,
                 kv_rebuilt *o) {
  const sums *s = &w->sum;
  const char *slash = strrchr(path, '/');
  double raw = all_of(s->raw);
  o->there = true;
  o->digest = file->digest;
  kv_code(kv_method_named("deltakv"), 1, &file->digest, o->code);
  o->of = w->c;
  o->length = length_of(file);
  o->alone = learned_alone(file);
  snprintf(o->file, sizeof o->file, "%s", slash ? slash + 1 : path);
  for (int way = 0; way < KV_REBUILT_WAYS; way++) {
    o->share[way] = raw > 0 ? all_of(s->missed[way]) / raw : 0;
    for (int c = 0; c < KV_REBUILT_OCTAVES; c++)
      o->by_position[way][c] =
          s->raw[c] > 0 ? s->missed[way][c] / s->raw[c] : NAN;
  }
}

/* --- a layer ------------------------------------------------------------- */

bool kv_latents_lack(const void *asset, int layer) {
  return !kv_asset_layer(asset, layer)[KV_LATENT_IN].data;
}

static size_t deepest(const kv_compressor *c) {
  return (size_t)(c->width > c->hidden ? c->width : c->hidden);
}

static float *floats(size_t n) {
  return aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
}

static kv_rc open_work(work *w, kv_err *e) {
  size_t tile = TILE, width = (size_t)w->c.width, d = (size_t)w->c.latent;
  size_t tokens = (size_t)w->rows->n;
  w->x = floats(tile * width);
  w->mean = floats(tile * width);
  w->hidden = floats(tile * kv_compressor_hidden(&w->c));
  w->decoded = floats(tile * width);
  w->code = floats(tile * d);
  w->less = floats(tile * d);
  w->pack = floats(KV_PACK * deepest(&w->c));
  w->z = floats(tokens * d);
  w->token = kv_zalloc(tokens, sizeof *w->token);
  if (w->token && w->x && w->mean && w->decoded && w->hidden && w->code &&
      w->less && w->pack && w->z)
    return KV_OK;
  return kv_no_memory(e, "latent vectors", tokens * d * sizeof(float));
}

static void close_work(work *w) {
  free(w->x);
  free(w->mean);
  free(w->decoded);
  free(w->hidden);
  free(w->code);
  free(w->less);
  free(w->pack);
  free(w->z);
  free(w->token);
}

kv_rc kv_latents_layer(const kv_trace *t, int layer, const kv_asset *file,
                       const char *path, const kv_token_rows *rows,
                       const kv_nearest *near, const kv_kernels *kernel,
                       kv_similarity *out, kv_rebuilt *rebuilt, kv_err *e) {
  work w = {.rows = rows, .near = near, .kernel = kernel};
  if (kv_latents_lack(file, layer)) return KV_OK;
  w.of = kv_asset_layer(file, layer);
  kv_rc rc = kv_open_compressor(&t->shape, "deltakv", file, kv_latents_lack,
                                file, &w.c, e);
  if (!rc) rc = open_work(&w, e);
  if (!rc) code_all(&w);
  if (!rc && w.n && out)
    count(&w, &out->residual[KV_LATENT_VECTOR], &out->sizes);
  if (!rc && w.n) tell(&w, file, path, rebuilt);
  close_work(&w);
  return rc;
}
