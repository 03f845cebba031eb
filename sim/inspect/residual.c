/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_similarity_layer: sim/inspect/residual.h. What a token gives is kept by
 * token and added up in their order; counts are added up by thread.
 */
#include "sim/inspect/residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/float.h"
#include "sim/inspect/classes.h"
#include "sim/inspect/latent.h"

enum { FROM = KV_NEAREST_FROM, BLOCK = 256, SEED = 1 };

const char *const kv_space_name[KV_SPACES] = {"kv", "k"};
const char *const kv_residual_name[KV_RESIDUALS] = {"raw", "nearest", "random",
                                                    "references", "z"};
const int kv_error_k[KV_ERROR_KS] = {1, 2, 4, 8};

typedef struct job {
  const kv_token_rows *rows;
  const kv_nearest *near;
  int n, width, layer, threads;
  double *square; /* [n] of what is in hand */
  kv_similarity *out;
} job;

/* --- one token ------------------------------------------------------------ */

/* One step of splitmix64, over and over. */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Of FROM .. t - 1, as the authors draw; token FROM gets token 0. */
static int draw(const job *w, int t) {
  uint64_t x = mix(mix(SEED + (uint64_t)w->layer) + (uint64_t)t);
  return t > FROM ? FROM + (int)(x % (uint64_t)(t - FROM)) : 0;
}

/* out = token t without the mean of n others. */
static void subtract(const job *w, int t, int n, const int32_t *others,
                     double *out) {
  const float *x = kv_token_row(w->rows, t);
  for (int i = 0; i < w->width; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++)
      sum += (double)kv_token_row(w->rows, others[j])[i];
    out[i] = n ? (double)x[i] - sum / n : (double)x[i];
  }
}

/* False: the token has no such residual. */
static bool residual_of(const job *w, int kind, int t, double *out) {
  int l = kind == KV_LESS_REFERENCES ? KV_RESIDUAL_LIST : 0, n = 0;
  const int32_t *near = kv_nearest_of(w->near, t, l);
  int32_t drawn = kind == KV_LESS_RANDOM ? draw(w, t) : 0;
  if (kind == KV_LESS_REFERENCES && kv_nearest_is_reference(t, l)) return false;
  int most = kind == KV_LESS_NOTHING      ? 0
             : kind == KV_LESS_REFERENCES ? KV_RESIDUAL_K
                                          : 1;
  if (kind == KV_LESS_RANDOM) near = &drawn;
  while (n < most && near[n] >= 0) n++;
  subtract(w, t, n, near, out);
  return true;
}

static double square_of(int n, const double *x) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  return sum;
}

static double raw_square(const job *w, int t) {
  const float *x = kv_token_row(w->rows, t);
  double sum = 0;
  for (int i = 0; i < w->width; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

/* --- the nearest ---------------------------------------------------------- */

static double cosine_of(const job *w, int t, int j) {
  const float *a = kv_token_row(w->rows, t), *b = kv_token_row(w->rows, j);
  double dot = 0, length = sqrt(raw_square(w, t)) * sqrt(raw_square(w, j));
  for (int i = 0; i < w->width; i++) dot += (double)a[i] * (double)b[i];
  return length > 0 ? dot / length : 0;
}

static void count_nearest(job *w) {
  kv_similarity *o = w->out;
  double chance = 0;
  for (int t = FROM; t < w->n; t++) {
    int j = kv_nearest_of(w->near, t, 0)[0];
    double cosine = cosine_of(w, t, j);
    o->tokens++;
    o->far += t - j > KV_FAR;
    o->close += cosine > .9;
    o->distances[kv_class_octave(t - j, KV_DISTANCES)]++;
    o->cosines[kv_class_line(20 * cosine, KV_COSINE_FIRST, KV_COSINES)]++;
    chance += (double)(t - KV_FAR) / t;
  }
  o->chance = chance / (double)o->tokens;
}

/* --- residuals ------------------------------------------------------------ */

/* Squares of tokens, -1 for those that have no such residual, and their
 * elements by class; unit: root mean square of raw elements. */
static void add_rows(job *w, int kind, double unit, int first, int n,
                     double *rows, int64_t *values) {
#pragma omp parallel num_threads(w->threads)
  {
    int64_t found[KV_VALUES] = {0};
    kv_float_ground();
#pragma omp for
    for (int i = 0; i < n; i++) {
      double *row = rows + (size_t)i * (size_t)w->width;
      bool has = residual_of(w, kind, first + i, row);
      w->square[first + i] = has ? square_of(w->width, row) : -1;
      if (!has) memset(row, 0, (size_t)w->width * sizeof *row);
      for (int j = 0; has && j < w->width; j++)
        found[kv_class_line(8 * row[j] / unit, KV_VALUE_FIRST, KV_VALUES)]++;
    }
#pragma omp critical(kv_residual_stats)
    for (int c = 0; c < KV_VALUES; c++) values[c] += found[c];
  }
}

static void add_up(const job *w, kv_residual_stats *o) {
  double squares = 0, raw = 0;
  for (int t = FROM; t < w->n; t++) {
    if (w->square[t] < 0) continue;
    double norm = sqrt(w->square[t]);
    o->tokens++;
    o->norm += norm;
    o->norms[kv_class_quarter(norm, KV_NORM_FIRST, KV_NORMS)]++;
    squares += w->square[t];
    raw += raw_square(w, t);
  }
  if (o->tokens) o->norm /= (double)o->tokens;
  o->share = raw > 0 ? squares / raw : 0;
}

static kv_rc do_kind(job *w, int kind, double unit, kv_err *e) {
  kv_residual_stats *o = &w->out->residual[kind];
  double *rows = kv_zalloc((size_t)BLOCK * (size_t)w->width, sizeof *rows);
  kv_gram g = {0};
  kv_rc rc = rows ? KV_OK : kv_no_memory(e, "residuals", 0);
  if (!rc && kv_spectrum_can()) rc = kv_gram_open(w->width, w->threads, &g, e);
  for (int first = FROM; !rc && first < w->n; first += BLOCK) {
    int n = w->n - first < BLOCK ? w->n - first : BLOCK;
    add_rows(w, kind, unit, first, n, rows, o->values);
    if (g.sum) kv_gram_add(&g, n, rows);
  }
  if (!rc) add_up(w, o);
  if (!rc && g.sum) rc = kv_spectrum_of(&g, &o->spectrum, e);
  kv_gram_close(&g);
  free(rows);
  return rc;
}

/* --- references ----------------------------------------------------------- */

/* Squares of what means of the k nearest of list l miss, over raw squares. */
static double error_of(const job *w, int l, int k, double *row) {
  double missed = 0, all = 0;
  for (int t = FROM; t < w->n; t++) {
    const int32_t *near = kv_nearest_of(w->near, t, l);
    int n = 0;
    if (kv_nearest_is_reference(t, 1)) continue;
    while (n < k && near[n] >= 0) n++;
    subtract(w, t, n, near, row);
    missed += square_of(w->width, row);
    all += raw_square(w, t);
  }
  return all > 0 ? missed / all : 0;
}

static kv_rc do_errors(job *w, kv_err *e) {
  enum { ALL = KV_NEAREST_LISTS * KV_ERROR_KS };
  int lacking = 0;
#pragma omp parallel num_threads(w->threads) reduction(+ : lacking)
  {
    double *row = kv_zalloc((size_t)w->width, sizeof *row);
    kv_float_ground();
    lacking += !row;
#pragma omp for schedule(dynamic)
    for (int i = 0; i < ALL; i++)
      if (row)
        w->out->error[i / KV_ERROR_KS][i % KV_ERROR_KS] =
            error_of(w, i / KV_ERROR_KS, kv_error_k[i % KV_ERROR_KS], row);
    free(row);
  }
  return lacking ? kv_no_memory(e, "residuals", 0) : KV_OK;
}

/* square: still that of the residuals against references. */
static void do_positions(job *w) {
  double missed[KV_DISTANCES] = {0}, all[KV_DISTANCES] = {0};
  for (int t = FROM; t < w->n; t++) {
    int c = kv_class_octave(t, KV_DISTANCES);
    if (w->square[t] < 0) continue;
    missed[c] += w->square[t];
    all[c] += raw_square(w, t);
  }
  for (int c = 0; c < KV_DISTANCES; c++)
    w->out->by_position[c] = all[c] > 0 ? missed[c] / all[c] : NAN;
}

/* --- a layer -------------------------------------------------------------- */

static double unit_of(const job *w) {
  double sum = 0;
  for (int t = FROM; t < w->n; t++) sum += raw_square(w, t);
  sum = sqrt(sum / ((double)w->width * (w->n - FROM)));
  return sum > 0 ? sum : 1;
}

static kv_rc do_space(job *w, int space, kv_err *e) {
  int kinds = space == KV_SPACE_KV ? KV_LATENT_VECTOR : KV_LESS_REFERENCES;
  double unit = unit_of(w);
  kv_rc rc = KV_OK;
  memset(w->out, 0, sizeof *w->out);
  count_nearest(w);
  for (int kind = 0; kind < kinds && !rc; kind++)
    rc = do_kind(w, kind, unit, e);
  if (rc || space != KV_SPACE_KV) return rc;
  do_positions(w);
  return do_errors(w, e);
}

kv_rc kv_similarity_check(const kv_trace *t, kv_err *e) {
  if (t->shape.n_tokens > FROM) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s has %d token%s, and only those from the %dth on are "
                 "compared with earlier ones: take a longer trace",
                 t->path, t->shape.n_tokens, t->shape.n_tokens == 1 ? "" : "s",
                 FROM + 1);
}

/* What each file makes of the tokens; z of the one beside the trace. */
static kv_rc do_files(const kv_trace *t, const job *w, const kv_kernels *kernel,
                      const kv_compressors *files, kv_rebuilt *rebuilt,
                      kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < files->n && !rc; i++)
    rc = kv_latents_layer(t, w->layer, files->file[i], files->path[i], w->rows,
                          w->near, kernel, i || !files->beside ? NULL : w->out,
                          &rebuilt[i], e);
  return rc;
}

kv_rc kv_similarity_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                          int threads, const kv_compressors *files,
                          kv_similarity *out, kv_rebuilt *rebuilt, kv_err *e) {
  kv_token_rows rows = {0};
  job w = {.rows = &rows,
           .n = t->shape.n_tokens,
           .layer = t->layer[i].data.layer,
           .threads = threads};
  kv_rc rc = kv_similarity_check(t, e);
  if (!rc) rc = kv_token_rows_open(t, i, kernel, threads, &rows, e);
  if (!rc && !(w.square = kv_zalloc((size_t)w.n, sizeof *w.square)))
    rc = kv_no_memory(e, "residuals", 0);
  for (int space = 0; space < KV_SPACES && !rc; space++) {
    kv_nearest near = {0};
    bool whole = space == KV_SPACE_KV;
    w.near = &near;
    w.width = whole ? rows.width : rows.keys;
    w.out = &out[space];
    rc = kv_nearest_open(&rows, w.width, whole ? KV_BY_DISTANCE : KV_BY_COSINE,
                         kernel, threads, &near, e);
    if (!rc) rc = do_space(&w, space, e);
    if (!rc && whole) rc = do_files(t, &w, kernel, files, rebuilt, e);
    kv_nearest_close(&near);
  }
  free(w.square);
  kv_token_rows_close(&rows);
  return rc;
}
