/* SPDX-License-Identifier: Apache-2.0
 *
 * Directions of Palu, of each layer, of keys and of values of each group of KV
 * heads:
 *
 *   M = sum of x x^T over all tokens, x the keys of the group before their
 *       rotation, or its values: binary64, not centred
 *   directions: eigenvectors of M by descending eigenvalue, the sign such that
 *       the number of the largest magnitude is positive (LAPACK's dsyev)
 *   energy: its eigenvalue, as a share of the sum of those of all groups
 *   turn=t: in each t neighbouring directions, Sylvester's Hadamard matrix /
 * the root of t times them; energies are then their mean
 *
 * These are the left singular vectors of the matrix of all x, and of the
 * whitened weights of the paper where x = W h (ref/methods/palu.c). All
 * directions are written; the method takes the first ones.
 * A loss is the mean of (x^ - x)^2 over tokens and channels with a share of the
 * directions, the same of each part; without them, x^ = 0.
 * Cost of a token: the square of each part's width.
 */
#include "ref/ground/float.h"
#include "sim/inspect/spectrum.h"
#include "sim/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct params {
  int heads, turn;
  float share;
} params;

static const kv_param table[] = {
    KV_INT_PARAM(
        "heads", params, heads, NULL, 1, 1 << 12, NULL,
        "KV heads a group; default 4 as in the authors' code, or as many "
        "as there are"),
    KV_INT_PARAM(
        "turn", params, turn, "1", 1, 1 << 10, NULL,
        "directions mixed by a Hadamard matrix, for latents of 4 bits: a "
        "power of two; ranks are then its multiples"),
    KV_REAL_PARAM("share", params, share, "0.5", 0, 1,
                  "of the directions, with which losses are told"),
    {.name = NULL}};

/* A part: keys or values of a group. */
typedef struct part {
  int first, width;     /* in the vector of a layer */
  size_t sum;           /* where its M is */
  size_t basis, energy; /* where its arrays are */
} part;

static int groups_of(const kv_training *t) {
  const params *o = t->params;
  return t->data->shape.n_kv_heads / o->heads;
}

static part part_of(const kv_training *t, int i) {
  const params *o = t->params;
  const kv_shape *s = &t->data->shape;
  int groups = groups_of(t), side = i >= groups, g = i - side * groups;
  int k = o->heads * s->d, width = side ? o->heads * s->d_v : k;
  size_t all = (size_t)width * (size_t)width;
  part p = {.first = side * groups * k + g * width, .width = width};
  p.sum = (size_t)(side * groups) * (size_t)k * (size_t)k + (size_t)g * all;
  p.basis = t->array[side].offset + (size_t)g * all;
  p.energy = t->array[2 + side].offset + (size_t)(g * width);
  return p;
}

/* --- open ----------------------------------------------------------------- */

static kv_rc check(const kv_training *t, kv_err *e) {
  const params *o = t->params;
  const kv_shape *s = &t->data->shape;
  int k = o->heads * s->d, v = o->heads * s->d_v;
  if (!kv_spectrum_can())
    return kv_fail(e, KV_RESOURCE,
                   "this kvreplay was built without LAPACK, which finds the "
                   "directions of palu: install liblapacke-dev and configure "
                   "again");
  if (s->n_kv_heads % o->heads != 0)
    return kv_fail(e, KV_USAGE,
                   "palu: groups of %d KV heads do not divide the %d of these "
                   "traces; choose heads as one of their divisors",
                   o->heads, s->n_kv_heads);
  if ((o->turn & (o->turn - 1)) == 0 && k % o->turn == 0 && v % o->turn == 0)
    return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "palu: turn=%d is no power of two that divides the %d numbers "
                 "of a group's keys and the %d of its values",
                 o->turn, k, v);
}

static kv_rc open(kv_training *t, kv_err *e) {
  static const char *const name[] = {
      "layers.*.key.basis", "layers.*.value.basis", "layers.*.key.energy",
      "layers.*.value.energy"};
  params *o = t->params;
  const kv_shape *s = &t->data->shape;
  kv_train_resolve(&o->heads, s->n_kv_heads < 4 ? s->n_kv_heads : 4);
  kv_rc rc = check(t, e);
  if (rc) return rc;
  for (int i = 0; i < 4; i++) {
    int width = o->heads * (i % 2 ? s->d_v : s->d);
    int64_t dim[] = {groups_of(t), width, width};
    kv_train_declare(t, name[i], i < 2 ? 3 : 2, dim);
  }
  t->sums = t->array[0].count + t->array[1].count;
  return KV_OK;
}

/* --- sums and losses ------------------------------------------------------ */

/* The lower half. */
static void add_outer(int width, const float *x, double *sum) {
  for (int i = 0; i < width; i++)
    for (int j = 0; j <= i; j++)
      sum[(size_t)i * (size_t)width + (size_t)j] += (double)x[i] * (double)x[j];
}

/* (x^ - x)^2 of the first n directions. */
static double left(int width, int n, const float *basis, const float *x,
                   double *rest) {
  double sum = 0;
  for (int i = 0; i < width; i++) rest[i] = (double)x[i];
  for (int r = 0; r < n; r++, basis += width) {
    double z = 0;
    for (int i = 0; i < width; i++) z += (double)basis[i] * (double)x[i];
    for (int i = 0; i < width; i++) rest[i] -= z * (double)basis[i];
  }
  for (int i = 0; i < width; i++) sum += rest[i] * rest[i];
  return sum;
}

static void see(const kv_train_task *q, const part *p, const float *x,
                double *rest, kv_train_loss *out) {
  const params *o = q->t->params;
  int n = (int)lround((double)o->share * p->width);
  if (q->sum) {
    add_outer(p->width, x, q->sum + p->sum);
    return;
  }
  for (int i = 0; i < p->width; i++)
    out->without += (double)x[i] * (double)x[i];
  out->loss += left(p->width, n, q->value + p->basis, x, rest);
  out->weight += p->width;
}

static kv_rc learn(const kv_train_task *q, kv_train_loss *out, kv_err *e) {
  int n = q->piece->count, w = kv_train_width(&q->t->data->shape);
  size_t floats = (size_t)n * (size_t)w;
  kv_rc rc = kv_scratch_reserve(q->scratch, floats + 2 * (size_t)w, e);
  if (rc) return rc;
  float *x = kv_scratch_take(q->scratch, floats);
  double *rest = kv_scratch_take(q->scratch, 2 * (size_t)w);
  *out = (kv_train_loss){0};
  kv_train_vectors(q->piece->of, q->t->kernels, q->at, q->piece->first, n, NULL,
                   x);
  for (int i = 0; i < 2 * groups_of(q->t); i++) {
    part p = part_of(q->t, i);
    for (int r = 0; r < n; r++)
      see(q, &p, x + (size_t)r * (size_t)w + p.first, rest, out);
  }
  return KV_OK;
}

/* --- directions ----------------------------------------------------------- */

static void put_row(int width, const double *from, float *to) {
  int most = 0;
  for (int i = 1; i < width; i++)
    if (fabs(from[i]) > fabs(from[most])) most = i;
  for (int i = 0; i < width; i++)
    to[i] = (float)(from[most] < 0 ? -from[i] : from[i]);
}

/* Rows x[0..n) of `width` times the Hadamard matrix / root of n. */
static void turn_rows(int n, int width, float *x) {
  float by = (float)(1 / sqrt((double)n));
  for (int half = 1; half < n; half *= 2)
    for (int i = 0; i < n; i++)
      for (int c = 0; c < width && !(i & half); c++) {
        float *a = &x[i * width + c], *b = &x[(i + half) * width + c];
        float sum = *a + *b, difference = *a - *b;
        *a = sum, *b = difference;
      }
  for (int i = 0; i < n * width; i++) x[i] *= by;
}

static void even_out(int n, float *energy) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)energy[i];
  for (int i = 0; i < n; i++) energy[i] = (float)(sum / n);
}

static void turn_part(const kv_training *t, const part *p, float *value) {
  const params *o = t->params;
  for (int i = 0; i < p->width && o->turn > 1; i += o->turn) {
    turn_rows(o->turn, p->width, value + p->basis + i * p->width);
    even_out(o->turn, value + p->energy + i);
  }
}

/* Eigenvectors of M; energies are eigenvalues, which are added up. */
static kv_rc directions(const part *p, const double *sum, double *m,
                        float *value, double *total, kv_err *e) {
  size_t w = (size_t)p->width;
  double *by = m + w * w;
  memcpy(m, sum + p->sum, w * w * sizeof *m);
  kv_rc rc = kv_eigenvectors(p->width, m, by, e);
  for (int i = 0; i < p->width && !rc; i++) {
    double energy = by[p->width - 1 - i];
    put_row(p->width, m + (size_t)(p->width - 1 - i) * w,
            value + p->basis + (size_t)i * w);
    value[p->energy + (size_t)i] = (float)(energy > 0 ? energy : 0);
    *total += energy > 0 ? energy : 0;
  }
  return rc;
}

static kv_rc finish_side(const kv_training *t, int side, const double *sum,
                         double *m, float *value, kv_err *e) {
  int groups = groups_of(t);
  double total = 0;
  kv_rc rc = KV_OK;
  for (int g = 0; g < groups && !rc; g++) {
    part p = part_of(t, side * groups + g);
    rc = directions(&p, sum, m, value, &total, e);
  }
  float *energy = value + t->array[2 + side].offset;
  for (size_t i = 0; i < t->array[2 + side].count && total > 0; i++)
    energy[i] = (float)((double)energy[i] / total);
  for (int g = 0; g < groups && !rc; g++) {
    part p = part_of(t, side * groups + g);
    turn_part(t, &p, value);
  }
  return rc;
}

static kv_rc finish(const kv_training *t, int layer, const double *sum,
                    float *value, kv_err *e) {
  part k = part_of(t, 0), v = part_of(t, groups_of(t));
  size_t w = (size_t)(k.width > v.width ? k.width : v.width);
  double *m = kv_zalloc(w * (w + 1), sizeof *m);
  (void)layer;
  kv_rc rc = m ? KV_OK : kv_no_memory(e, "directions", w * w * sizeof *m);
  for (int side = 0; side < 2 && !rc; side++)
    rc = finish_side(t, side, sum, m, value, e);
  free(m);
  return rc;
}

static kv_rc tell(const kv_training *t, kv_st_writer *w, kv_err *e) {
  const params *o = t->params;
  char text[16];
  snprintf(text, sizeof text, "%d", o->heads);
  kv_rc rc = kv_st_writer_meta(w, "heads", text, e);
  snprintf(text, sizeof text, "%d", o->turn);
  return rc ? rc : kv_st_writer_meta(w, "turn", text, e);
}

const kv_trainer kv_trainer_palu = {
    .name = "palu",
    .title = "directions of groups of KV heads that hold most of their squares",
    .format = "kvreplay-palu",
    .params = table,
    .params_size = sizeof(params),
    .pace = {.passes = 1},
    .dtype = KV_ST_F16,
    .turns = true,
    .open = open,
    .learn = learn,
    .finish = finish,
    .tell = tell,
};
