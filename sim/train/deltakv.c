/* SPDX-License-Identifier: Apache-2.0
 *
 * The compressor of DeltaKV, a pair of small networks a layer:
 *
 *   kv_t  K of all KV heads before their rotation, then V, of token t
 *   m_t   mean of its k nearest references, strictly earlier: sinks, and the
 *         tokens at multiples of the stride, as recorded
 *   z = f_c(kv_t) - f_c(m_t)     kv^_t = f_d(z) + m_t
 *   loss  mean of (kv^ - kv)^2 over tokens and channels; layers add up
 *   references=none: z = f_c(kv_t), kv^_t = f_d(z), an ablation
 *
 * AdamW with rate 2e-4, risen to in the first 2 % of the steps and falling to 0
 * in the rest, gradients clipped to 1; weights begin as N(0, 0.02^2), biases
 * as 0. Sinks are never coded, so they are not learned; tokens at multiples of
 * the stride are, as the others are.
 *
 * Hao et al. 2026, DeltaKV (Algorithm 1). There the model runs on with what
 * was rebuilt, references are rebuilt ones, and the loss of the next token is
 * added. A trace has no model: this is the term of the squared error, with
 * references as recorded, which the method keeps exactly. The paper sums
 * squared norms, the authors' code takes means: the latter. Their code lets a
 * token be its own reference; here never. `kvreplay train-hf deltakv` trains
 * with the model. Its Table 5 takes the references away and trains
 * again, with latents half as wide again (768 for 512 of 2048), so that as many
 * bytes are kept: so does references=none, by its default.
 * Cost of a token: 6 products with every matrix, and one with each reference;
 * 3 and none where there are no references.
 */
#include "sim/train/nearest.h"
#include "sim/train/net.h"
#include "sim/train/trainer.h"

#include <stdio.h>
#include <string.h>

typedef struct params {
  int compressor, references, latent, hidden, back, stride, k, sinks;
} params;

enum { NEAREST, NONE }; /* references */

static const kv_param table[] = {
    KV_CHOICE_PARAM("compressor", params, compressor, "swiglu", "swiglu|gelu",
                    "swiglu, the light one, or gelu, two layers each way"),
    KV_CHOICE_PARAM(
        "references", params, references, "nearest", "nearest|none",
        "none: z is of the token alone, for deltakv:references=none"),
    KV_INT_PARAM(
        "latent", params, latent, NULL, 1, 1 << 16, NULL,
        "width of z; default a quarter of K and V, as in the paper, and "
        "without references 3/8, as in its Table 5"),
    KV_INT_PARAM(
        "hidden", params, hidden, NULL, 1, 1 << 17, NULL,
        "units of f_c; default 1.5 times the width of K and V for swiglu, "
        "2 times for gelu, as in the paper"),
    KV_INT_PARAM("back", params, back, NULL, 1, 1 << 17, NULL,
                 "units of f_d, gelu alone; default those of f_c"),
    KV_INT_PARAM(
        "stride", params, stride, NULL, 1, 1 << 20, "tokens",
        "a reference every so many tokens; default 10, as in the paper"),
    KV_INT_PARAM("k", params, k, NULL, 1, KV_NEAREST_MOST, NULL,
                 "references a token; default 4, as in the paper"),
    KV_INT_PARAM("sinks", params, sinks, "8", 1, 1 << 16, "tokens",
                 "first tokens, references that are never coded; 8 as in the "
                 "authors' evaluation"),
    {.name = NULL}};

/* --- arrays -------------------------------------------------------------- */

/* Of both compressors, in the order of declaration. */
enum { IN, OUT, BACK_OUT, IN_BIAS, OUT_BIAS, BACK_IN, BACK_IN_BIAS, BACK_BIAS };

static void matrix(kv_training *t, const char *name, int out, int in) {
  kv_train_declare(t, name, in ? 2 : 1, (int64_t[]){out, in});
}

static void declare_gelu(kv_training *t, int width) {
  const params *o = t->params;
  matrix(t, "layers.*.compress.in.weight", o->hidden, width);
  matrix(t, "layers.*.compress.out.weight", o->latent, o->hidden);
  matrix(t, "layers.*.decompress.out.weight", width, o->back);
  matrix(t, "layers.*.compress.in.bias", o->hidden, 0);
  matrix(t, "layers.*.compress.out.bias", o->latent, 0);
  matrix(t, "layers.*.decompress.in.weight", o->back, o->latent);
  matrix(t, "layers.*.decompress.in.bias", o->back, 0);
  matrix(t, "layers.*.decompress.out.bias", width, 0);
}

static void declare_swiglu(kv_training *t, int width) {
  const params *o = t->params;
  matrix(t, "layers.*.compress.in.weight", 2 * o->hidden, width);
  matrix(t, "layers.*.compress.out.weight", o->latent, o->hidden);
  matrix(t, "layers.*.decompress.out.weight", width, o->latent);
}

/* stride and k are of references; without any both are 0. */
static kv_rc open_references(params *o, kv_err *e) {
  bool none = o->references == NONE, stride = o->stride != KV_UNSET;
  if (none && (stride || o->k != KV_UNSET))
    return kv_fail(e, KV_USAGE,
                   "%s=%d is of references, and references=none has none",
                   stride ? "stride" : "k", stride ? o->stride : o->k);
  kv_train_resolve(&o->stride, none ? 0 : 10);
  kv_train_resolve(&o->k, none ? 0 : 4);
  return KV_OK;
}

static kv_rc open(kv_training *t, kv_err *e) {
  params *o = t->params;
  int width = kv_train_width(&t->data->shape);
  int latent = o->references == NONE ? width * 3 / 8 : width / 4;
  if (o->compressor == 0 && o->back != KV_UNSET)
    return kv_fail(
        e, KV_USAGE,
        "back=%d is of the compressor gelu; swiglu's way back is one "
        "layer",
        o->back);
  kv_rc rc = open_references(o, e);
  if (rc) return rc;
  kv_train_resolve(&o->latent, latent < 1 ? 1 : latent);
  kv_train_resolve(&o->hidden, o->compressor ? 2 * width : width * 3 / 2);
  if (o->compressor)
    kv_train_resolve(&o->back, o->hidden);
  else
    o->back = 0;
  (o->compressor ? declare_gelu : declare_swiglu)(t, width);
  return KV_OK;
}

static void begin(const kv_training *t, kv_draw *draw, float *value) {
  for (int i = 0; i < t->arrays; i++)
    if (t->array[i].rank > 1)
      kv_draw_normal(draw, 0.02, t->array[i].count, value + t->array[i].offset);
}

static kv_dense dense(const kv_train_task *q, int weight, int bias) {
  const kv_train_array *a = q->t->array;
  kv_dense d = {.in = (int)a[weight].dim[1],
                .out = (int)a[weight].dim[0],
                .weight = q->value + a[weight].offset};
  if (q->gradient) d.weight_gradient = q->gradient + a[weight].offset;
  if (bias < q->t->arrays) {
    d.bias = q->value + a[bias].offset;
    if (q->gradient) d.bias_gradient = q->gradient + a[bias].offset;
  }
  return d;
}

static kv_net net_of(const kv_train_task *q) {
  const params *o = q->t->params;
  kv_net net = {.gelu = o->compressor,
                .alone = o->references == NONE,
                .width = kv_train_width(&q->t->data->shape),
                .hidden = o->hidden,
                .latent = o->latent,
                .back = o->back,
                .in = dense(q, IN, IN_BIAS),
                .out = dense(q, OUT, OUT_BIAS),
                .back_out = dense(q, BACK_OUT, BACK_BIAS),
                .kernels = q->t->kernels};
  if (o->back) net.back_in = dense(q, BACK_IN, BACK_IN_BIAS);
  return net;
}

/* --- a step -------------------------------------------------------------- */

/* x: n tokens from `first` on. */
static void gather(const kv_train_task *q, int first, int n, float *x) {
  kv_train_vectors(q->piece->of, q->t->kernels, q->at, first, n, NULL, x);
}

/* Their means; x is given. */
static void average(const kv_train_task *q, int first, int n, int references,
                    const float *x, float *mean) {
  const params *o = q->t->params;
  const kv_train_trace *of = q->piece->of;
  int width = kv_train_width(&of->trace->shape), end = first + n - 1;
  kv_scratch *s = q->scratch;
  int *token = kv_scratch_take(s, (size_t)references);
  float *raw = kv_scratch_take(s, (size_t)references * (size_t)width);
  kv_references(o->sinks, o->stride, end, token);
  kv_train_vectors(of, q->t->kernels, q->at, 0, references, token, raw);
  kv_nearest_means(n, first, width, o->k, x, references, token, raw, s, mean);
}

/* Squares of what is left, and of what the mean alone would leave, or nothing
 * where there is none; d_y becomes the gradient of their mean. */
static void judge(size_t count, const float *x, const float *mean,
                  const float *y, float *d_y, kv_train_loss *out) {
  float by = 2.0f / (float)count;
  double loss = 0, without = 0;
  for (size_t i = 0; i < count; i++) {
    float left = y[i] - x[i], alone = (mean ? mean[i] : 0.0f) - x[i];
    loss += (double)(left * left);
    without += (double)(alone * alone);
    d_y[i] = left * by;
  }
  *out = (kv_train_loss){loss, (double)count, without};
}

/* Elements of scratch for n tokens. */
static size_t room_of(const kv_net *net, int n, int references) {
  size_t wide = (size_t)n * (size_t)net->width;
  size_t room = 3 * wide + kv_net_room(net, n);
  return net->alone ? room
                    : room + kv_nearest_room(n, references) +
                          (size_t)references * (size_t)(net->width + 1);
}

static kv_rc learn(const kv_train_task *q, kv_train_loss *out, kv_err *e) {
  const params *o = q->t->params;
  kv_net net = net_of(q);
  int first = q->piece->first < o->sinks ? o->sinks : q->piece->first;
  int n = q->piece->first + q->piece->count - first, references = 0;
  *out = (kv_train_loss){0};
  if (n <= 0) return KV_OK;
  if (!net.alone)
    references = kv_references(o->sinks, o->stride, first + n - 1, NULL);
  size_t wide = (size_t)n * (size_t)net.width;
  kv_rc rc = kv_scratch_reserve(q->scratch, room_of(&net, n, references), e);
  if (rc) return rc;
  float *both = kv_scratch_take(q->scratch, 2 * wide);
  float *d_y = kv_scratch_take(q->scratch, wide);
  float *mean = net.alone ? NULL : both + wide;
  kv_net_run run;
  gather(q, first, n, both);
  if (mean) average(q, first, n, references, both, mean);
  kv_net_forth(&net, n, both, q->scratch, &run);
  judge(wide, both, mean, run.y, d_y, out);
  if (q->gradient) kv_net_back(&net, &run, d_y);
  return KV_OK;
}

/* --- the file ------------------------------------------------------------ */

static kv_rc tell_number(kv_st_writer *w, const char *key, int value,
                         kv_err *e) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  return kv_st_writer_meta(w, key, text, e);
}

static kv_rc tell(const kv_training *t, kv_st_writer *w, kv_err *e) {
  const params *o = t->params;
  kv_rc rc =
      kv_st_writer_meta(w, "compressor", o->compressor ? "gelu" : "swiglu", e);
  if (!rc) rc = tell_number(w, "latent", o->latent, e);
  if (!rc) rc = tell_number(w, "hidden", o->hidden, e);
  if (!rc && o->references == NONE)
    rc = kv_st_writer_meta(w, "trained_references", "none", e);
  if (!rc && o->stride) rc = tell_number(w, "trained_stride", o->stride, e);
  if (!rc && o->k) rc = tell_number(w, "trained_k", o->k, e);
  if (!rc) rc = tell_number(w, "trained_sinks", o->sinks, e);
  return rc;
}

const kv_trainer kv_trainer_deltakv = {
    .name = "deltakv",
    .title = "compressors of what differs from the mean of the references",
    .format = "kvreplay-deltakv",
    .params = table,
    .params_size = sizeof(params),
    .pace = {.rate = 2e-4, .rise = 0.02, .fall = KV_FALL_LINEAR, .passes = 12},
    .dtype = KV_ST_F16,
    .turns = true,
    .open = open,
    .begin = begin,
    .learn = learn,
    .tell = tell,
};
