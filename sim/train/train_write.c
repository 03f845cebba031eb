/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a training: sim/train/train.h. Tensors in the order in which they
 * were declared, layer by layer; in F16 or BF16 each to the nearest.
 */
#include "sim/train/train.h"

#include "ref/ground/arith.h"
#include "traces/container/leftover.h"
#include "traces/text/text.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- numbers -------------------------------------------------------------- */

static kv_rc append(kv_st_writer *w, kv_st_dtype type, size_t n, const float *x,
                    kv_err *e) {
  if (type == KV_ST_F32) return kv_st_writer_append(w, n * sizeof *x, x, e);
  uint16_t *out = kv_zalloc(n, sizeof *out);
  if (!out) return kv_no_memory(e, "a tensor", n * sizeof *out);
  for (size_t i = 0; i < n; i++)
    out[i] = type == KV_ST_F16 ? kv_to_f16(x[i]) : kv_to_bf16(x[i]);
  kv_rc rc = kv_st_writer_append(w, n * sizeof *out, out, e);
  free(out);
  return rc;
}

/* --- tensors -------------------------------------------------------------- */

static void name_of(const kv_train_array *a, int layer, size_t room,
                    char *out) {
  const char *star = strchr(a->name, '*');
  if (star)
    snprintf(out, room, "%.*s%d%s", (int)(star - a->name), a->name, layer,
             star + 1);
  else
    snprintf(out, room, "%s", a->name);
}

/* Of an array without a star: all layers of the model in one tensor. */
static kv_rc declare_whole(const kv_train *x, const kv_train_array *a,
                           kv_st_writer *w, kv_err *e) {
  uint64_t dim[KV_TRAIN_RANK + 1] = {(uint64_t)x->data.shape.n_layers};
  for (int i = 0; i < a->rank; i++) dim[i + 1] = (uint64_t)a->dim[i];
  return kv_st_writer_declare(w, a->name, x->ask.dtype, a->rank + 1, dim, e);
}

static kv_rc declare(const kv_train *x, const kv_train_array *a,
                     kv_st_writer *w, kv_err *e) {
  uint64_t dim[KV_TRAIN_RANK];
  char name[KV_SHOW];
  kv_rc rc = KV_OK;
  if (!strchr(a->name, '*')) return declare_whole(x, a, w, e);
  for (int i = 0; i < a->rank; i++) dim[i] = (uint64_t)a->dim[i];
  for (int l = 0; l < x->data.layers && !rc; l++) {
    name_of(a, x->data.layer[l], sizeof name, name);
    rc = kv_st_writer_declare(w, name, x->ask.dtype, a->rank, dim, e);
  }
  return rc;
}

static const float *of_layer(const kv_train *x, int l,
                             const kv_train_array *a) {
  return x->value + (size_t)l * x->t.floats + a->offset;
}

/* Layers that no trace records are 0 in a tensor of all layers. */
static kv_rc put_whole(const kv_train *x, const kv_train_array *a,
                       kv_st_writer *w, kv_err *e) {
  float *none = kv_zalloc(a->count, sizeof *none);
  kv_rc rc = none ? KV_OK : kv_no_memory(e, "a tensor", a->count);
  for (int layer = 0, l = 0; layer < x->data.shape.n_layers && !rc; layer++) {
    bool there = l < x->data.layers && x->data.layer[l] == layer;
    rc = append(w, x->ask.dtype, a->count, there ? of_layer(x, l, a) : none, e);
    l += there;
  }
  free(none);
  return rc;
}

static kv_rc put(const kv_train *x, const kv_train_array *a, kv_st_writer *w,
                 kv_err *e) {
  kv_rc rc = KV_OK;
  if (!strchr(a->name, '*')) return put_whole(x, a, w, e);
  for (int l = 0; l < x->data.layers && !rc; l++)
    rc = append(w, x->ask.dtype, a->count, of_layer(x, l, a), e);
  return rc;
}

/* --- the file ------------------------------------------------------------- */

/* For which model it is, by the first trace that says it. */
static kv_rc tell_model(const kv_train *x, const char *key, kv_st_writer *w,
                        kv_err *e) {
  const char *said = NULL;
  for (int i = 0; i < x->data.learned && !said; i++)
    said = kv_trace_meta(x->data.trace[i].trace, key);
  return said ? kv_st_writer_meta(w, key, said, e) : KV_OK;
}

static kv_rc tell(const kv_train *x, kv_st_writer *w, kv_err *e) {
  char text[120];
  const kv_trainer *of = x->ask.of;
  kv_rc rc = of->format ? kv_st_writer_meta(w, "format", of->format, e) : KV_OK;
  snprintf(text, sizeof text,
           "%d traces, %lld tokens, %lld steps, rate %g, seed %llu",
           x->data.learned, (long long)x->data.tokens, (long long)x->steps,
           x->ask.rate, (unsigned long long)x->ask.seed);
  if (!rc) rc = kv_st_writer_meta(w, "trained", text, e);
  snprintf(text, sizeof text, "%d", x->ask.most);
  if (!rc) rc = kv_st_writer_meta(w, "trained_length", text, e);
  if (!rc) rc = tell_model(x, "model", w, e);
  if (!rc) rc = tell_model(x, "model_digest", w, e);
  return rc || !of->tell ? rc : of->tell(&x->t, w, e);
}

static kv_rc check_finite(const kv_train *x, kv_err *e) {
  size_t n = (size_t)x->data.layers * x->t.floats;
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x->value[i]))
      return kv_fail(e, KV_INPUT,
                     "a weight is not finite after %lld steps: take a lower "
                     "--rate",
                     (long long)x->step);
  return KV_OK;
}

kv_rc kv_train_write(kv_train *x, kv_err *e) {
  kv_st_writer *w = NULL;
  kv_rc rc = check_finite(x, e);
  if (!rc) rc = kv_st_writer_open(x->ask.output, 0, &w, e);
  for (int i = 0; i < x->t.arrays && !rc; i++)
    rc = declare(x, &x->t.array[i], w, e);
  if (!rc) rc = tell(x, w, e);
  for (int i = 0; i < x->t.arrays && !rc; i++)
    rc = put(x, &x->t.array[i], w, e);
  if (!rc) rc = kv_st_writer_finish(w, NULL, e);
  kv_st_writer_close(w);
  if (!rc) unlink(x->checkpoint);
  return rc;
}
