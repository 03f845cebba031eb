/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces to train on, opened and held against the first: sim/train/data.h.
 * Their vectors are in vectors.c.
 */
#include "sim/train/data.h"

#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

int kv_train_layer(const kv_trace *t, int layer) {
  for (int i = 0; i < t->n_layers; i++)
    if (t->layer[i].data.layer == layer) return i;
  return -1;
}

bool kv_train_cut(const kv_train_trace *of, int most, int i,
                  kv_train_piece *out) {
  int n = of->trace->shape.n_tokens, first = i * most;
  if (first >= n) return false;
  *out = (kv_train_piece){of, first, n - first < most ? n - first : most};
  return true;
}

/* --- is it like the first? ------------------------------------------------ */

static kv_rc check_shape(const kv_trace *t, const kv_trace *first, kv_err *e) {
  const kv_shape *a = &t->shape, *b = &first->shape;
  if (a->n_layers == b->n_layers && a->n_heads == b->n_heads &&
      a->n_kv_heads == b->n_kv_heads && a->d == b->d && a->d_v == b->d_v)
    return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s has %d layers of %d query and %d KV heads of %d and %d, "
                 "and %s has %d of %d and %d of %d and %d: one file of weights "
                 "is for one model",
                 t->name, a->n_layers, a->n_heads, a->n_kv_heads, a->d, a->d_v,
                 first->name, b->n_layers, b->n_heads, b->n_kv_heads, b->d,
                 b->d_v);
}

/* By what a model is where both say it, else by what it is called. */
static kv_rc check_model(const kv_trace *t, const kv_trace *first, kv_err *e) {
  const char *key = "model_digest";
  if (!kv_trace_meta(t, key) || !kv_trace_meta(first, key)) key = "model";
  const char *a = kv_trace_meta(t, key), *b = kv_trace_meta(first, key);
  char x[KV_SHOW], y[KV_SHOW];
  if (!a || !b || !strcmp(a, b)) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s is of the %s %s, and %s of %s: one file of weights is for "
                 "one model",
                 t->name, key, kv_show(a, x), first->name, kv_show(b, y));
}

/* What is judged by may record fewer layers. */
static kv_rc check_layers(const kv_train_trace *of, const kv_train_data *d,
                          kv_err *e) {
  const kv_trace *t = of->trace, *first = d->trace[0].trace;
  for (int i = 0; i < d->layers && !of->held; i++)
    if (kv_train_layer(t, d->layer[i]) < 0)
      return kv_fail(e, KV_INPUT,
                     "%s does not record layer %d, which %s does: train on "
                     "traces with the same layers",
                     t->name, d->layer[i], first->name);
  return KV_OK;
}

static kv_rc check_turns(const kv_train_wants *wants, const kv_trace *t,
                         kv_err *e) {
  if (!wants->turns || t->rope.inv_freq) return KV_OK;
  return kv_fail(
      e, KV_INPUT,
      "%s has no RoPE frequencies (rope.inv_freq), so keys cannot be "
      "turned back as %s wants them: record them, or train on "
      "another trace",
      t->name, wants->method);
}

/* --- opening -------------------------------------------------------------- */

static kv_rc scan(const kv_trace *t, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < t->n_layers && !rc; i++) {
    rc = kv_trace_scan_layer(t, i, e);
    kv_trace_release_layer(t, i);
  }
  return rc;
}

static kv_rc list_layers(kv_train_data *d, kv_err *e) {
  const kv_trace *t = d->trace[0].trace;
  int *layer = kv_zalloc((size_t)t->n_layers, sizeof *layer);
  d->layer = layer;
  d->shape = t->shape;
  d->layers = t->n_layers;
  if (!layer) return kv_no_memory(e, "layers", sizeof *layer);
  for (int i = 0; i < t->n_layers; i++) layer[i] = t->layer[i].data.layer;
  return KV_OK;
}

static kv_rc open_one(const kv_train_wants *wants, const char *path,
                      kv_train_trace *of, kv_train_data *d, kv_err *e) {
  kv_rc rc = kv_trace_open(path, &of->trace, e);
  if (!rc) rc = kv_trace_expect_plain(of->trace, "kvreplay train", e);
  if (rc) return rc;
  const kv_trace *t = of->trace, *first = d->trace[0].trace;
  if (!d->layer) rc = list_layers(d, e);
  if (!rc) rc = check_shape(t, first, e);
  if (!rc) rc = check_model(t, first, e);
  if (!rc) rc = check_layers(of, d, e);
  if (!rc) rc = check_turns(wants, t, e);
  if (!rc) rc = scan(t, e);
  if (!rc && wants->turns)
    rc = kv_turns_open(&t->rope, t->shape.n_tokens, t->shape.d, 0, &of->turns,
                       e);
  return rc;
}

static kv_rc check_answers(const kv_train_wants *wants, const kv_train_data *d,
                           kv_err *e) {
  int n = 0;
  for (int i = 0; i < d->learned; i++) n += d->trace[i].trace->n_answers;
  if (n || !wants->answers) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s learns from recorded answers, and no trace has any "
                 "(metadata answers)",
                 wants->method);
}

static kv_rc cut(const kv_train_wants *wants, kv_train_data *d, kv_err *e) {
  kv_train_piece piece;
  size_t n = 0;
  for (int i = 0; i < d->learned; i++)
    n += (size_t)(d->trace[i].trace->shape.n_tokens / wants->most + 1);
  d->piece = kv_zalloc(n, sizeof *d->piece);
  if (!d->piece) return kv_no_memory(e, "pieces", n * sizeof *d->piece);
  for (int i = 0; i < d->learned; i++)
    for (int j = 0; kv_train_cut(&d->trace[i], wants->most, j, &piece); j++) {
      d->piece[d->pieces++] = piece;
      d->tokens += piece.count;
    }
  return KV_OK;
}

kv_rc kv_train_data_open(const kv_train_wants *wants, int learned,
                         const char *const *path, int held,
                         const char *const *held_path, kv_train_data *out,
                         kv_err *e) {
  size_t n = (size_t)learned + (size_t)held;
  *out = (kv_train_data){.traces = learned + held, .learned = learned};
  if (learned == 0)
    return kv_fail(e, KV_USAGE, "there is no trace to train on");
  out->trace = kv_zalloc(n, sizeof *out->trace);
  if (!out->trace) return kv_no_memory(e, "traces", n * sizeof *out->trace);
  kv_rc rc = KV_OK;
  for (int i = 0; i < out->traces && !rc; i++) {
    out->trace[i].held = i >= learned;
    rc = open_one(wants, i < learned ? path[i] : held_path[i - learned],
                  &out->trace[i], out, e);
  }
  if (!rc) rc = check_answers(wants, out, e);
  return rc ? rc : cut(wants, out, e);
}

void kv_train_data_close(kv_train_data *d) {
  for (int i = 0; d->trace && i < d->traces; i++) {
    kv_turns_close(&d->trace[i].turns);
    kv_trace_close(d->trace[i].trace);
  }
  free(d->trace);
  free((void *)d->layer);
  free(d->piece);
  *d = (kv_train_data){0};
}
